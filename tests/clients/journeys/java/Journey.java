import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.inversoft.rest.ClientResponse;
import io.fusionauth.client.FusionAuthClient;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Calls the methods of the official Java client: one call per line of the input, one outcome per line of the output. */
public class Journey {
  private static final ObjectMapper MAPPER = FusionAuthClient.objectMapper;

  private final String baseUrl;

  private Journey(String baseUrl) {
    this.baseUrl = baseUrl;
  }

  public static void main(String... arguments) throws Exception {
    Journey journey = new Journey(arguments[0]);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode request = MAPPER.readTree(line);
      System.out.println(MAPPER.writeValueAsString(request.has("method") ? journey.call(request) : methods()));
    }
  }

  private static List<String> methods() {
    List<String> names = new ArrayList<>();
    for (Method method : FusionAuthClient.class.getDeclaredMethods()) {
      if (method.getReturnType() == ClientResponse.class) {
        names.add(method.getName());
      }
    }
    return names;
  }

  private Map<String, Object> call(JsonNode request) throws Exception {
    List<JsonNode> given = new ArrayList<>();
    request.get("arguments").forEach(given::add);
    String tenantId = request.get("tenantId").asText(null);
    FusionAuthClient client = new FusionAuthClient(request.get("key").asText(), baseUrl, request.get("tenantId").isNull() ? null : tenantId);
    try {
      Method method = find(request.get("method").asText(), given.size());
      Object[] arguments = new Object[given.size()];
      for (int i = 0; i < arguments.length; i++) {
        arguments[i] = MAPPER.convertValue(given.get(i), MAPPER.constructType(method.getGenericParameterTypes()[i]));
      }
      return outcome((ClientResponse<?, ?>) method.invoke(client, arguments));
    } catch (InvocationTargetException e) {
      return outcome(0, false, e.getCause().toString());
    } catch (RuntimeException e) {
      return outcome(0, false, e.toString());
    }
  }

  private static Method find(String name, int count) {
    return Arrays.stream(FusionAuthClient.class.getDeclaredMethods())
        .filter(method -> method.getName().equals(name) && method.getParameterCount() == count)
        .findFirst()
        .orElseThrow(() -> new IllegalArgumentException(name + " does not have " + count + " parameters"));
  }

  private static Map<String, Object> outcome(ClientResponse<?, ?> answer) {
    if (answer.wasSuccessful()) {
      return outcome(answer.status, true, answer.successResponse);
    }
    return outcome(answer.status, false, answer.exception != null ? answer.exception.toString() : answer.errorResponse);
  }

  private static Map<String, Object> outcome(int status, boolean ok, Object body) {
    Map<String, Object> outcome = new LinkedHashMap<>();
    outcome.put("status", status);
    outcome.put("ok", ok);
    outcome.put("body", body);
    return outcome;
  }
}
