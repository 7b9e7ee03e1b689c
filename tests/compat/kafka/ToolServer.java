import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other, each as in a JVM of its own (tool_server.py).
 *
 * A request: the number of words, the words (main class and arguments), and standard input. An answer: the exit code, standard
 * output and standard error. Words and streams have their length before them. It ends when the requests do, or with a tool that
 * ends the JVM.
 */
public class ToolServer {
    /** What a tool leaves: all until it exits, then what its hooks leave. What lies between, a JVM of its own would not do. */
    private static final class Run {
        final ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        final ByteArrayOutputStream said = new ByteArrayOutputStream(), complained = new ByteArrayOutputStream();
        final List<Runnable> hooks = new ArrayList<>();
        Integer code;

        synchronized void end(int exitCode) {
            if (code == null) {
                code = exitCode;
                take();
            }
        }

        void runHooks() {
            forget();
            for (Runnable hook : hooks) {
                try {
                    hook.run();
                } catch (Ended again) {
                    // It has ended already.
                }
            }
            take();
        }

        private void take() {
            System.out.flush();
            System.err.flush();
            said.writeBytes(out.toByteArray());
            complained.writeBytes(err.toByteArray());
            out.reset();
            err.reset();
        }

        private void forget() {
            System.out.flush();
            System.err.flush();
            out.reset();
            err.reset();
        }
    }

    private static final class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** The stream of the tool that runs now. Loggers and Scala's console keep what they find first. */
    private static final class Now extends OutputStream {
        private volatile OutputStream to = OutputStream.nullOutputStream();

        @Override
        public void write(int octet) throws IOException {
            to.write(octet);
        }

        @Override
        public void write(byte[] octets, int from, int count) throws IOException {
            to.write(octets, from, count);
        }
    }

    /** The exit code is that of this JVM. */
    private static final int EXITED = -1;

    private static volatile Run run = new Run();
    private static volatile boolean isRunning;

    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        Now out = new Now(), err = new Now();
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        Exit.Procedure end = (code, message) -> {
            if (message != null) {
                System.err.println(message);
            }
            run.end(code);
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> run.hooks.add(hook));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (isRunning) { // The parser of some tools' arguments exits by itself.
                run.end(EXITED);
                answer(answers);
            }
        }));
        while (true) {
            int words;
            try {
                words = requests.readInt();
            } catch (EOFException over) {
                System.exit(0);
                return;
            }
            String main = new String(read(requests), StandardCharsets.UTF_8);
            String[] rest = new String[words - 1];
            for (int number = 0; number < rest.length; number++) {
                rest[number] = new String(read(requests), StandardCharsets.UTF_8);
            }
            System.setIn(new ByteArrayInputStream(read(requests)));
            run = new Run();
            out.to = run.out;
            err.to = run.err;
            isRunning = true;
            tool(main, rest);
            isRunning = false;
            answer(answers);
        }
    }

    private static void tool(String main, String[] arguments) throws ReflectiveOperationException {
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
            run.end(0);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                System.err.print("Exception in thread \"main\" ");
                thrown.getCause().printStackTrace();
                run.end(1);
            }
        }
        run.runHooks();
    }

    private static void answer(DataOutputStream answers) {
        try {
            answers.writeInt(run.code);
            write(answers, run.said.toByteArray());
            write(answers, run.complained.toByteArray());
            answers.flush();
        } catch (IOException nobodyReads) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static byte[] read(DataInputStream from) throws IOException {
        return from.readNBytes(from.readInt());
    }

    private static void write(DataOutputStream to, byte[] octets) throws IOException {
        to.writeInt(octets.length);
        to.write(octets);
    }
}
