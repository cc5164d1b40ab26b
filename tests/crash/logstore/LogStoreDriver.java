import io.delta.storage.LogStore;
import io.github.blizzard.logstore.HardLinkLogStore;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;

/**
 * Drives a log store from a process of its own.
 *
 * <pre>
 *   race STORE LOG WRITER VERSIONS TURNSTILE PLACE [KEY=VALUE…]   versions 0 … VERSIONS-1 against another process
 *   serve                                                         orders from standard input, one a line, by tabs:
 *     write  STORE LOG WRITER VERSION OVERWRITE [KEY=VALUE…]
 *     read   STORE LOG VERSION [KEY=VALUE…]                       the lines of a commit
 *     list   STORE LOG VERSION [KEY=VALUE…]                       names from a version on
 * </pre>
 *
 * A write answers "won 17" or "lost 17", an order that fails "failed …", and a line with a dot ends each answer.
 */
public final class LogStoreDriver {

  private LogStoreDriver() {}

  public static void main(String[] arguments) throws Exception {
    if (arguments[0].equals("race")) {
      race(new Log(arguments, 7), arguments);
    } else {
      serve(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
    }
  }

  private static void serve(BufferedReader orders) throws IOException {
    for (String order = orders.readLine(); order != null; order = orders.readLine()) {
      try {
        obey(order.split("\t"));
      } catch (Exception failure) {
        System.out.println("failed " + failure.toString().replace('\n', ' '));
      }
      System.out.println(".");
    }
  }

  private static void obey(String[] order) throws Exception {
    switch (order[0]) {
      case "write":
        new Log(order, 6).write(order[3], Long.parseLong(order[4]), Boolean.parseBoolean(order[5]));
        break;
      case "read":
        new Log(order, 4).read(Long.parseLong(order[3])).forEachRemaining(System.out::println);
        break;
      case "list":
        new Log(order, 4).list(Long.parseLong(order[3])).forEachRemaining(System.out::println);
        break;
      default:
        throw new IllegalArgumentException(order[0]);
    }
  }

  private static void race(Log log, String[] arguments) throws Exception {
    Turnstile turnstile = new Turnstile(Path.of(arguments[5]), Integer.parseInt(arguments[6]));
    for (long version = 0; version < Long.parseLong(arguments[4]); version++) {
      turnstile.pass(version);
      log.write(arguments[3], version, false);
    }
  }

  /** One log store over one folder, configured by the KEY=VALUE arguments. */
  private static final class Log {
    private final Configuration conf = new Configuration();
    private final LogStore store;
    private final String folder;

    Log(String[] arguments, int firstSetting) throws Exception {
      Arrays.stream(arguments).skip(firstSetting).map(setting -> setting.split("=", 2))
          .forEach(pair -> conf.set(pair[0], pair[1]));
      // Orders to one bucket may go to different endpoints.
      conf.setBoolean("fs.s3a.impl.disable.cache", !arguments[0].equals("race"));
      store = (LogStore) Class.forName(arguments[1]).getConstructor(Configuration.class).newInstance(conf);
      folder = arguments[2];
    }

    void write(String writer, long version, boolean overwrite) throws IOException {
      List<String> actions = List.of("{\"writer\":\"" + writer + "\"}", "{\"version\":" + version + "}");
      try {
        store.write(commit(version), actions.iterator(), overwrite, conf);
        System.out.println("won " + version);
      } catch (FileAlreadyExistsException taken) {
        System.out.println("lost " + version);
      }
    }

    Iterator<String> read(long version) throws IOException {
      return store.read(commit(version), conf);
    }

    Iterator<String> list(long version) throws IOException {
      Iterator<FileStatus> found = store.listFrom(commit(version), conf);
      return new Iterator<>() {
        @Override
        public boolean hasNext() {
          return found.hasNext();
        }

        @Override
        public String next() {
          return found.next().getPath().getName();
        }
      };
    }

    private org.apache.hadoop.fs.Path commit(long version) {
      return new org.apache.hadoop.fs.Path(folder, String.format("%020d.json", version));
    }
  }

  /** Two processes pass together: each shows in a shared page what it is about to write, and waits for the other. */
  private static final class Turnstile {
    private static final VarHandle LONGS = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
    private static final int APART = 128;
    private static final long PATIENCE_NANOS = 180_000_000_000L;

    private final ByteBuffer page;
    private final int place;

    Turnstile(Path file, int place) throws IOException {
      try (FileChannel channel =
          FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
        page = channel.map(FileChannel.MapMode.READ_WRITE, 0, 2 * APART).order(ByteOrder.nativeOrder());
      }
      this.place = place;
    }

    void pass(long version) {
      LONGS.setVolatile(page, place * APART, version + 1);
      long deadline = System.nanoTime() + PATIENCE_NANOS;
      while ((long) LONGS.getVolatile(page, (1 - place) * APART) <= version) {
        if (System.nanoTime() > deadline) {
          throw new IllegalStateException("the other process did not come to version " + version);
        }
        LockSupport.parkNanos(1_000);
      }
    }
  }

  /** Stands in for a file system without hard links. */
  public static final class WithoutHardLinks extends HardLinkLogStore {
    public WithoutHardLinks(Configuration conf) {
      super(conf);
    }

    @Override
    protected void link(Path target, Path existing) throws IOException {
      throw new UnsupportedOperationException("no links here");
    }
  }
}
