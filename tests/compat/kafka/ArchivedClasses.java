import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import kafka.admin.ConfigCommand;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.DumpLogSegments;
import kafka.tools.StorageTool;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.tools.FeatureCommand;
import org.apache.kafka.tools.GetOffsetShell;
import org.apache.kafka.tools.TopicCommand;
import org.apache.kafka.tools.TransactionsCommand;
import org.apache.kafka.tools.VerifiableProducer;
import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Loads what brokers and tools of Kafka load, for an archive of classes (archives.py): a broker starts, tools ask it, it ends.
 * Arguments: the broker's properties file, its address, and a directory for files.
 */
public class ArchivedClasses {
    private static final class Ended extends RuntimeException {}

    private interface Tool {
        void main(String[] arguments) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String properties = arguments[0], address = arguments[1];
        Path directory = Path.of(arguments[2]);
        Exit.Procedure end = (code, message) -> {
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        run(StorageTool::main, "format", "-t", Uuid.randomUuid().toString(), "-c", properties);
        KafkaRaftServer server = new KafkaRaftServer(KafkaConfig.fromProps(Utils.loadProps(properties)), Time.SYSTEM);
        server.startup();
        ask(address, directory);
        server.shutdown();
        server.awaitShutdown();
    }

    private static void ask(String address, Path directory) throws Exception {
        String[] server = {"--bootstrap-server", address};
        Tool topics = TopicCommand::main;
        Tool configs = ConfigCommand::main;
        Tool groups = ConsumerGroupCommand::main;
        run(topics, with(server, "--create", "--topic", "t", "--partitions", "2"));
        transaction(address);
        run(VerifiableProducer::main, with(server, "--topic", "t", "--max-messages", "2"));
        for (String protocol : new String[] {"classic", "consumer"}) {
            String[] read = {"--topic", "t", "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000", "--group", protocol};
            run(ConsoleConsumer::main, with(with(server, read), "--command-property", "group.protocol=" + protocol));
        }
        run(topics, with(server, "--describe", "--topic", "t"));
        run(configs, with(server, "--alter", "--topic", "t", "--add-config", "retention.ms=86400000"));
        run(configs, with(server, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"));
        run(groups, with(server, "--describe", "--group", "classic"));
        run(groups, with(server, "--describe", "--group", "consumer", "--members", "--verbose"));
        run(groups, with(server, "--reset-offsets", "--group", "classic", "--topic", "t", "--to-earliest", "--execute"));
        run(GetOffsetShell::main, with(server, "--topic", "t"));
        run(FeatureCommand::main, with(server, "describe"));
        run(TransactionsCommand::main, with(server, "list"));
        Path log = directory.resolve("data").resolve("t-0").resolve("00000000000000000000.log");
        run(DumpLogSegments::main, "--files", log.toString(), "--print-data-log");
    }

    private static void transaction(String address) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("transactional.id", "t");
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("t", "a record"));
            producer.commitTransaction();
        }
    }

    private static void run(Tool tool, String... arguments) throws Exception {
        try {
            tool.main(arguments);
        } catch (Ended ended) {
            // Some tools end so even when all is well.
        }
    }

    private static String[] with(String[] first, String... more) {
        List<String> all = new ArrayList<>(Arrays.asList(first));
        all.addAll(Arrays.asList(more));
        return all.toArray(String[]::new);
    }
}
