package io.github.blizzard.logstore;

import io.delta.storage.S3SingleDriverLogStore;
import io.delta.storage.internal.S3LogStoreUtil;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.CreateFileOptionKeys;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.AWSServiceIOException;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3AUtils;
import software.amazon.awssdk.core.exception.SdkException;

/**
 * A Delta log on S3 for any number of writing drivers: S3 itself picks the winner of each version.
 *
 * <p>A commit is one PUT with {@code If-None-Match: *}, which S3 refuses if the key exists. This needs S3A of Hadoop
 * 3.4.2 or later, and every writer of the table has to use this log store. Reads are those of Delta's own S3 log store.
 */
public class ConditionalS3LogStore extends S3SingleDriverLogStore {

  /** User metadata ({@code x-amz-meta-…}) that identifies the write that created an object. */
  static final String WRITE_ID = "blizzard-write-id";

  private static final int MAX_CONFLICT_RETRIES = 8;
  private static final long FIRST_CONFLICT_PAUSE_MS = 20;
  private static final int HTTP_CONFLICT = 409;

  private final boolean fastListFrom = initHadoopConf().getBoolean("delta.enableFastS3AListFrom", false);

  private enum Owner { NOBODY, THIS_WRITE, ANOTHER_WRITE }

  public ConditionalS3LogStore(Configuration hadoopConf) {
    super(hadoopConf);
  }

  /**
   * Lists the log from a version on with LIST requests only.
   *
   * <p>A missing log must not look like a log without newer versions. Delta's own listing therefore first checks, with
   * two requests, that the folder exists. Here this is checked only if the listing is empty. Delta's listing also
   * returns objects of folders whose names start with this folder's name; these are filtered out.
   */
  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration hadoopConf) throws IOException {
    FileSystem fs = path.getFileSystem(hadoopConf);
    if (!fastListFrom || !(fs instanceof S3AFileSystem)) {
      return super.listFrom(path, hadoopConf);
    }
    Path first = fs.makeQualified(path);
    String folder = first.getParent().toUri().getPath();
    List<FileStatus> found =
        Arrays.stream(list(fs, first))
            .filter(status -> status.getPath().getParent().toUri().getPath().equals(folder))
            .filter(status -> status.getPath().getName().compareTo(first.getName()) >= 0)
            .sorted(Comparator.comparing(status -> status.getPath().getName()))
            .collect(Collectors.toList());
    if (found.isEmpty() && !fs.exists(first.getParent())) {
      throw new FileNotFoundException("No such file or directory: " + first.getParent());
    }
    return found.iterator();
  }

  /** For the first page S3A throws exceptions of the SDK; they are translated to Hadoop's. */
  private static FileStatus[] list(FileSystem fs, Path first) throws IOException {
    try {
      return S3LogStoreUtil.s3ListFromArray(fs, first, first.getParent());
    } catch (SdkException failure) {
      throw S3AUtils.translateException("list", first, failure);
    }
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoopConf)
      throws IOException {
    // Read completely first: if the iterator fails half-way, nothing may have been written.
    byte[] body = lines(actions);
    FileSystem fs = path.getFileSystem(hadoopConf);
    if (overwrite) {
      send(fs.create(path, true), body);
    } else {
      create(fs, path, body);
    }
  }

  private static byte[] lines(Iterator<String> actions) throws IOException {
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      body.write(actions.next().getBytes(StandardCharsets.UTF_8));
      body.write('\n');
    }
    return body.toByteArray();
  }

  private static void create(FileSystem fs, Path path, byte[] body) throws IOException {
    String writeId = UUID.randomUUID().toString();
    for (int conflicts = 0; ; conflicts++) {
      // No request is sent before close(), so a failure here says nothing about the commit.
      FSDataOutputStream out = openConditionally(fs, path, writeId);
      try {
        send(out, body);
        return;
      } catch (IOException failure) {
        // The failure does not tell who won; only the object does. The AWS SDK and S3A resend a PUT whose response was
        // lost, and the second PUT is refused because the first one succeeded.
        switch (owner(fs, path, writeId, failure)) {
          case THIS_WRITE:
            return;
          case ANOTHER_WRITE:
            throw alreadyExists(path, failure);
          default:
            if (!isConflict(failure) || conflicts == MAX_CONFLICT_RETRIES) {
              throw failure;
            }
            pause(conflicts, path);
        }
      }
    }
  }

  /** For a stream that creates the object in close(), with one PUT, if it does not exist. */
  static FSDataOutputStreamBuilder<?, ?> createOnly(FileSystem fs, Path path) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path);
    builder.overwrite(false);
    // must(), not opt(): a file system without this condition has to fail here instead of overwriting.
    builder.must(CreateFileOptionKeys.FS_OPTION_CREATE_CONDITIONAL_OVERWRITE, true);
    return builder;
  }

  private static FSDataOutputStream openConditionally(FileSystem fs, Path path, String writeId) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = createOnly(fs, path);
    builder.must("fs.s3a.create.header." + WRITE_ID, writeId);
    try {
      return builder.build();
    } catch (IllegalArgumentException unknownOption) {
      throw new IOException(
          "Cannot commit " + path + ": " + fs.getClass().getName() + " has no conditional create."
              + " Use S3A of Hadoop 3.4.2 or later, or another log store for this scheme.",
          unknownOption);
    }
  }

  /** The object is created in close(). An aborted stream creates nothing. */
  private static void send(FSDataOutputStream out, byte[] body) throws IOException {
    boolean complete = false;
    try {
      out.write(body);
      complete = true;
    } finally {
      if (!complete) {
        out.abort();
      }
    }
    out.close();
  }

  /** If this request fails too, the outcome is unknown, and the original failure is thrown. */
  private static Owner owner(FileSystem fs, Path path, String writeId, IOException failure) throws IOException {
    try {
      byte[] found = fs.getXAttrs(path).get("header." + WRITE_ID);
      boolean isThisWrite = found != null && writeId.equals(new String(found, StandardCharsets.UTF_8));
      return isThisWrite ? Owner.THIS_WRITE : Owner.ANOTHER_WRITE;
    } catch (FileNotFoundException missing) {
      return Owner.NOBODY;
    } catch (IOException lookupFailure) {
      failure.addSuppressed(lookupFailure);
      throw failure;
    }
  }

  /** S3 responds with 409 if two conditional writes overlap; the client has to send its request again. */
  private static boolean isConflict(IOException failure) {
    return failure instanceof AWSServiceIOException
        && ((AWSServiceIOException) failure).statusCode() == HTTP_CONFLICT;
  }

  private static FileAlreadyExistsException alreadyExists(Path path, IOException failure) {
    FileAlreadyExistsException error = new FileAlreadyExistsException(path.toString());
    error.initCause(failure);
    return error;
  }

  private static void pause(int conflicts, Path path) throws IOException {
    long maxPauseMs = FIRST_CONFLICT_PAUSE_MS << conflicts;
    try {
      Thread.sleep(ThreadLocalRandom.current().nextLong(maxPauseMs / 2, maxPauseMs));
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw (IOException) new InterruptedIOException("Interrupted before " + path + " was committed").initCause(interrupt);
    }
  }
}
