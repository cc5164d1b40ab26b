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
 * How Delta writes the checksum beside each commit: on S3 by one PUT, which shows the file whole or not at all.
 *
 * <p>Spark's own way is a temporary file that is renamed. On S3 that is some twenty requests, one after the other, in
 * each commit. All else, other file systems, and what a streaming query of the same session writes, are left to Spark.
 */
public final class ChecksumFiles implements CheckpointFileManager {

  /** Names the class that Spark asks, here this one. */
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

  /** Made when it is first needed: each transaction has one of us, and Spark's starts a client of its own. */
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

  /** The object comes into being in close(); a stream that is cancelled leaves nothing. */
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
