package io.github.blizzard.logstore;

import io.delta.storage.LocalLogStore;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;

/**
 * A Delta log on local files for any number of writing processes: the kernel picks the winner of each version.
 *
 * <p>A commit is written to a hidden file in the same folder, synced to disk, and then published under its name by a
 * hard link, which fails if the name exists. (Delta's own log store renames, and so replaces a commit that another
 * process makes between its check and its rename.) A killed process leaves such a hidden file, which is never read.
 */
public class HardLinkLogStore extends LocalLogStore {

  public HardLinkLogStore(Configuration hadoopConf) {
    super(hadoopConf);
  }

  @Override
  public void write(
      org.apache.hadoop.fs.Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoopConf)
      throws IOException {
    Path target = new File(path.toUri().getPath()).toPath();
    if (!Files.isDirectory(target.getParent())) {
      throw new FileNotFoundException("No such folder: " + target.getParent());
    }
    Path hidden = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
    try {
      writeDurably(hidden, actions);
      // Hadoop would verify the new file against the checksum of an earlier file with the same name.
      Files.deleteIfExists(target.resolveSibling("." + target.getFileName() + ".crc"));
      if (overwrite) {
        Files.move(hidden, target, StandardCopyOption.ATOMIC_MOVE);
      } else {
        publish(hidden, target);
      }
    } finally {
      removeQuietly(hidden);
    }
    syncFolder(target.getParent());
  }

  /**
   * Same result as Delta's own, which also gets the status of every file before the requested version. After a thousand
   * commits that takes a tenth of a second, several times in each commit.
   */
  @Override
  public Iterator<FileStatus> listFrom(org.apache.hadoop.fs.Path path, Configuration hadoopConf) throws IOException {
    org.apache.hadoop.fs.Path folder = path.getParent();
    String[] names = new File(folder.toUri().getPath()).list();
    if (names == null) {
      throw new FileNotFoundException("No such folder: " + folder);
    }
    Arrays.sort(names);
    FileSystem files = path.getFileSystem(hadoopConf);
    List<FileStatus> found = new ArrayList<>();
    for (String name : names) {
      if (name.compareTo(path.getName()) >= 0) {
        try {
          found.add(files.getFileStatus(new org.apache.hadoop.fs.Path(folder, name)));
        } catch (FileNotFoundException deleted) {
          // Removed by the log's clean-up since the listing.
        }
      }
    }
    return found.iterator();
  }

  /** Overridden by a test. */
  protected void link(Path target, Path existing) throws IOException {
    Files.createLink(target, existing);
  }

  private static void writeDurably(Path file, Iterator<String> actions) throws IOException {
    // Not a FileChannel: an interrupt of the thread would close it during the write.
    try (FileOutputStream out = new FileOutputStream(file.toFile())) {
      OutputStream buffered = new BufferedOutputStream(out);
      while (actions.hasNext()) {
        buffered.write(actions.next().getBytes(StandardCharsets.UTF_8));
        buffered.write('\n');
      }
      buffered.flush();
      out.getFD().sync();
    }
  }

  private void publish(Path hidden, Path target) throws IOException {
    try {
      link(target, hidden);
    } catch (IOException | UnsupportedOperationException failure) {
      // A network file system may lose the response, repeat the request, and report a failure because the first one
      // succeeded.
      if (isSameFile(hidden, target)) {
        return;
      }
      throw failure instanceof FileAlreadyExistsException ? (IOException) failure : refused(target, failure);
    }
  }

  private static boolean isSameFile(Path hidden, Path target) throws IOException {
    return Files.exists(target) && Files.isSameFile(hidden, target);
  }

  private static IOException refused(Path target, Exception failure) {
    String reason = failure instanceof FileSystemException
        ? ((FileSystemException) failure).getReason()
        : failure.getMessage();
    return new IOException(
        "Cannot commit " + target + " with a hard link (" + reason + "). Two writers of one table are kept apart by"
            + " hard links: if the file system of " + target.getParent() + " has none, put the table on one that has"
            + " (ext4, xfs, btrfs, tmpfs, APFS) or on S3.",
        failure);
  }

  private static void removeQuietly(Path hidden) {
    try {
      Files.deleteIfExists(hidden);
    } catch (IOException harmless) {
      // The outcome of the commit is already decided. A hidden file that stays does no harm.
    }
  }

  private static void syncFolder(Path folder) {
    try (FileChannel channel = FileChannel.open(folder, StandardOpenOption.READ)) {
      channel.force(true);
    } catch (IOException unsupported) {
      // Some file systems cannot sync a folder. The commit is visible by now and cannot be undone.
    }
  }
}
