import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Transactional producers that move amounts between partitions, consumers of a group that copy what is committed in transactions,
 * and a reader of committed records: a thread each. They go on whatever happens to the cluster.
 *
 * Arguments: bootstrap servers, topic, topic of the copies, group protocol, partitions, producers, copiers, seed, and the number
 * of this run. Standard input: "end transfers", later "end all"; the program ends as well if its input does. It prints JSON lines: the outcome of each transfer,
 * each error, each copy that was aborted, and each read (see tests/system/chaos/transactions/committed_reads.py).
 */
public class JavaClients {
    private static final String TIMEOUT_MS = "10000", COMMITTED = "committed", ABORTED = "aborted", UNKNOWN = "unknown";
    private static final double ABORTED_SHARE = 0.2;
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long PAUSE_MS = 1000, HALVES_MS = 60_000;

    private static volatile boolean transfersOver, allOver;
    private static String bootstrap, topic, copy, protocol;
    private static int partitions, run;

    private interface Call {
        void run();
    }

    /** Calls what may be called again after a timeout, until it is done. */
    private static void untilDone(Call call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException again) {
                // The call goes on where it was.
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\s", " ") + '"';
    }

    private static void sayError(KafkaException failure) {
        say("{\"error\": " + quoted("java: " + failure + ", " + failure.getCause()) + "}");
    }

    private static KafkaProducer<String, String> opened(String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", transactionalId);
        settings.put("transaction.timeout.ms", TIMEOUT_MS);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        while (true) {
            KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
            try {
                untilDone(producer::initTransactions);
                return producer;
            } catch (KafkaException failure) {
                sayError(failure);
                producer.close(Duration.ZERO);
            }
        }
    }

    private static KafkaConsumer<String, String> consumer(Map<String, String> more) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.putAll(more);
        return new KafkaConsumer<>(settings);
    }

    /** A transactional producer. After an error that it cannot abort it goes on as another producer. */
    private static class Instance {
        private final String transactionalId;
        private KafkaProducer<String, String> producer;

        Instance(String transactionalId) {
            this.transactionalId = transactionalId;
            producer = opened(transactionalId);
        }

        /** Whether the transaction was aborted. If not, its outcome is that of its last request. */
        boolean abort(KafkaException failure) {
            sayError(failure);
            try {
                untilDone(producer::abortTransaction);
                return true;
            } catch (KafkaException fatal) {
                producer.close(Duration.ZERO);
                producer = opened(transactionalId);
                return false;
            }
        }
    }

    private static void transfer(int number, long seed) {
        Random chance = new Random((seed * 1000 + run) * 1000 + number);
        Instance instance = new Instance("java-teller-" + number);
        for (int count = 0; !transfersOver; count++) {
            String name = "java-" + number + "-" + run + ":" + count, outcome = ABORTED;
            int amount = 1 + chance.nextInt(99), giver = chance.nextInt(partitions);
            int taker = (giver + 1 + chance.nextInt(partitions - 1)) % partitions;
            try {
                instance.producer.beginTransaction();
                instance.producer.send(new ProducerRecord<>(topic, giver, null, name + " " + -amount));
                instance.producer.send(new ProducerRecord<>(topic, taker, null, name + " " + amount));
                if (chance.nextDouble() < ABORTED_SHARE) {
                    instance.producer.flush();
                    untilDone(instance.producer::abortTransaction);
                } else {
                    outcome = UNKNOWN;
                    untilDone(instance.producer::commitTransaction);
                    outcome = COMMITTED;
                }
            } catch (KafkaException failure) {
                if (instance.abort(failure)) outcome = ABORTED;
            }
            say("{\"transfer\": " + quoted(name) + ", \"outcome\": " + quoted(outcome) + "}");
        }
        instance.producer.close();
    }

    private static void copy(int number) {
        Map<String, String> settings = new HashMap<>(Map.of(
            "group.id", "java-copiers", "group.protocol", protocol, "auto.offset.reset", "earliest"));
        if (protocol.equals("classic")) settings.put("session.timeout.ms", TIMEOUT_MS);
        Instance instance = new Instance("java-copier-" + number);
        try (KafkaConsumer<String, String> consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            while (!allOver) {
                ConsumerRecords<String, String> records = consumer.poll(POLL);
                if (records.isEmpty()) continue;
                try {
                    instance.producer.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> position = new HashMap<>();
                    for (ConsumerRecord<String, String> record : records) {
                        instance.producer.send(new ProducerRecord<>(copy, record.partition(), null, record.value()));
                        TopicPartition partition = new TopicPartition(topic, record.partition());
                        position.put(partition, new OffsetAndMetadata(record.offset() + 1));
                    }
                    untilDone(() -> instance.producer.sendOffsetsToTransaction(position, consumer.groupMetadata()));
                    untilDone(instance.producer::commitTransaction);
                } catch (KafkaException failure) {
                    say("{\"aborted_copy\": " + number + "}");
                    instance.abort(failure);
                    rewind(consumer);
                }
            }
        }
        instance.producer.close();
    }

    /** The records that were not copied come again. */
    private static void rewind(KafkaConsumer<String, String> consumer) {
        untilDone(() -> consumer.committed(consumer.assignment()).forEach((partition, committed) -> {
            consumer.seek(partition, committed == null ? 0 : committed.offset());
        }));
    }

    private static void read() throws InterruptedException {
        while (!allOver) {
            try {
                say(readOnce());
            } catch (TimeoutException again) {
                sayError(again);
            }
            Thread.sleep(PAUSE_MS);
        }
    }

    private static String readOnce() {
        List<TopicPartition> all = IntStream.range(0, partitions).mapToObj(index -> new TopicPartition(topic, index)).toList();
        Map<String, List<Long>> amounts = new HashMap<>(), begun = new TreeMap<>();
        CRC32[] digests = Arrays.stream(new CRC32[partitions]).map(none -> new CRC32()).toArray(CRC32[]::new);
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("auto.offset.reset", "none"))) {
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            consumer.assign(all);
            all.forEach(partition -> consumer.seek(partition, 0));
            long halvesUntil = 0;
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    String[] words = record.value().split(" ");
                    List<Long> seen = amounts.computeIfAbsent(words[0], name -> new ArrayList<>());
                    seen.add(Long.parseLong(words[1]));
                    if (record.offset() >= ends.get(new TopicPartition(topic, record.partition()))) continue;
                    begun.put(words[0], seen);
                    digests[record.partition()].update((record.offset() + " " + record.value() + "\n").getBytes());
                }
                if (!all.stream().allMatch(partition -> consumer.position(partition) >= ends.get(partition))) continue;
                if (halvesUntil == 0) halvesUntil = System.currentTimeMillis() + HALVES_MS;
                String torn = begun.entrySet().stream().filter(each -> isTorn(each.getValue()))
                    .map(each -> quoted(each.getKey())).collect(Collectors.joining(", "));
                if (torn.isEmpty() || System.currentTimeMillis() > halvesUntil) {
                    List<Long> sums = Arrays.stream(digests).map(CRC32::getValue).toList();
                    List<Long> until = all.stream().map(ends::get).toList();
                    return "{\"ends\": " + until + ", \"digests\": " + sums + ", \"torn\": [" + torn + "]}";
                }
            }
        }
    }

    private static boolean isTorn(List<Long> amounts) {
        return amounts.size() != 2 || amounts.get(0) + amounts.get(1) != 0;
    }

    private interface Work {
        void run() throws InterruptedException;
    }

    private static Thread started(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable failure) {
                failure.printStackTrace();
                System.exit(1);
            }
        });
        thread.start();
        return thread;
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        copy = arguments[2];
        protocol = arguments[3];
        int[] numbers = Arrays.stream(arguments).skip(4).mapToInt(Integer::parseUnsignedInt).toArray();
        partitions = numbers[0];
        run = numbers[4];
        List<Thread> tellers = IntStream.range(0, numbers[1]).mapToObj(number -> started(() -> transfer(number, numbers[3]))).toList();
        List<Thread> others = new ArrayList<>(IntStream.range(0, numbers[2]).mapToObj(number -> started(() -> copy(number))).toList());
        others.add(started(JavaClients::read));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if (!"end transfers".equals(input.readLine())) System.exit(1);
        transfersOver = true;
        for (Thread teller : tellers) teller.join();
        say("end of transfers");
        if (!"end all".equals(input.readLine())) System.exit(1);
        allOver = true;
        for (Thread other : others) other.join();
    }
}
