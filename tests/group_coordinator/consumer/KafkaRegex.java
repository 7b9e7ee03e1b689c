// RE2J, as Kafka uses it: reads a JSON list of patterns and a JSON list of names, and prints for each pattern a JSON list of the
// names that it matches, or a string with what is wrong with it.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public class KafkaRegex {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String[] patterns = json.readValue(lines.readLine(), String[].class);
        String[] names = json.readValue(lines.readLine(), String[].class);
        List<Object> answers = new ArrayList<>();
        for (String pattern : patterns) {
            try {
                Pattern compiled = Pattern.compile(pattern);
                answers.add(Arrays.stream(names).filter(name -> compiled.matcher(name).matches()).toList());
            } catch (PatternSyntaxException e) {
                answers.add(e.getDescription());
            }
        }
        System.out.println(json.writeValueAsString(answers));
    }
}
