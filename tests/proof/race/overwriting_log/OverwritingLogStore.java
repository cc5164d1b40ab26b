import io.delta.storage.LocalLogStore;
import java.io.IOException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** A log that is broken on purpose: whoever commits a version second wins it, and nobody is told. */
public class OverwritingLogStore extends LocalLogStore {

  public OverwritingLogStore(Configuration hadoopConf) {
    super(hadoopConf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoopConf)
      throws IOException {
    super.write(path, actions, true, hadoopConf);
  }
}
