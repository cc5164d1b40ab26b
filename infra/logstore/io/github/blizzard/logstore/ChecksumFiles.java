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
  private CheckpointFileManager sparkManager;

  public ChecksumFiles(Path folder, Configuration hadoopConf) throws IOException {
    this.folder = folder;
    this.hadoopConf = hadoopConf;
    fs = folder.getFileSystem(hadoopConf);
  }

  /** Spark's own manager, created on first use: it starts a client, and each transaction has an instance of this class. */
  private synchronized CheckpointFileManager sparkManager() {
    if (sparkManager == null) {
      Configuration withoutThisClass = new Configuration(hadoopConf);
      withoutThisClass.unset(SETTING);
      sparkManager = CheckpointFileManager.create(folder, withoutThisClass);
    }
    return sparkManager;
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    if (overwriteIfPossible || !path.getName().endsWith(".crc") || !(fs instanceof S3AFileSystem)) {
      return sparkManager().createAtomic(path, overwriteIfPossible);
    }
    try {
      return new AtomicOutput(ConditionalS3LogStore.createOnly(fs, path).build());
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  @Override
  public FSDataInputStream open(Path path) {
    return sparkManager().open(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return sparkManager().list(path, filter);
  }

  @Override
  public void mkdirs(Path path) {
    sparkManager().mkdirs(path);
  }

  @Override
  public boolean exists(Path path) {
    return sparkManager().exists(path);
  }

  @Override
  public void delete(Path path) {
    sparkManager().delete(path);
  }

  @Override
  public boolean isLocal() {
    return sparkManager().isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    return sparkManager().createCheckpointDirectory();
  }

  @Override
  public synchronized void close() {
    if (sparkManager != null) {
      sparkManager.close();
    }
  }

  /** The object is created in close(). A cancelled stream creates nothing. */
  private static final class AtomicOutput extends CancellableFSDataOutputStream {

    private final FSDataOutputStream out;

    AtomicOutput(FSDataOutputStream out) {
      super(out);
      this.out = out;
    }

    @Override
    public void cancel() {
      out.abort();
    }
  }
}
