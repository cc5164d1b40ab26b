package io.github.blizzard.logstore;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Writes the checksum file of each Delta commit: on S3 with one PUT, which is atomic.
 *
 * <p>Spark writes a temporary file and renames it. On S3 that takes about twenty sequential requests in each commit.
 * Other files, other file systems, and the files of streaming queries in the same session, are left to Spark.
 */
public final class ChecksumFiles implements CheckpointFileManager {

  /** The setting with the class that Spark uses, here this one. */
  static final String SETTING = "spark.sql.streaming.checkpointFileManagerClass";

  private final Path folder;
  private final Configuration hadoopConf;
  private final FileSystem fs;
  private CheckpointFileManager sparks;

  public ChecksumFiles(Path folder, Configuration hadoopConf) throws IOException {
    this.folder = folder;
    this.hadoopConf = hadoopConf;
    fs = folder.getFileSystem(hadoopConf);
  }

  /** Created on first use: each transaction has an instance of this class, and Spark's starts a client of its own. */
  private synchronized CheckpointFileManager sparks() {
    if (sparks == null) {
      Configuration withoutUs = new Configuration(hadoopConf);
      withoutUs.unset(SETTING);
      sparks = CheckpointFileManager.create(folder, withoutUs);
    }
    return sparks;
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    if (overwriteIfPossible || !path.getName().endsWith(".crc") || !(fs instanceof S3AFileSystem)) {
      return sparks().createAtomic(path, overwriteIfPossible);
    }
    try {
      return new WholeOrNothing(ConditionalS3LogStore.createOnly(fs, path).build());
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  @Override
  public FSDataInputStream open(Path path) {
    return sparks().open(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return sparks().list(path, filter);
  }

  @Override
  public void mkdirs(Path path) {
    sparks().mkdirs(path);
  }

  @Override
  public boolean exists(Path path) {
    return sparks().exists(path);
  }

  @Override
  public void delete(Path path) {
    sparks().delete(path);
  }

  @Override
  public boolean isLocal() {
    return sparks().isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    return sparks().createCheckpointDirectory();
  }

  @Override
  public synchronized void close() {
    if (sparks != null) {
      sparks.close();
    }
  }

  /** The object is created in close(). A cancelled stream creates nothing. */
  private static final class WholeOrNothing extends CancellableFSDataOutputStream {

    private final FSDataOutputStream out;

    WholeOrNothing(FSDataOutputStream out) {
      super(out);
      this.out = out;
    }

    @Override
    public void cancel() {
      out.abort();
    }
  }
}
