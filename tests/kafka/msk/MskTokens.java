package io.github.blizzard.kafka;

import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;

/**
 * Accepts the tokens that Amazon MSK does: the Base64 URL of a presigned request of kafka-cluster:Connect, signed with
 * version 4 of AWS's signatures. Options of its JAAS entry: region, accessKey, secretKey. Each token that it accepts or
 * refuses is a line on standard output, with the first characters of the signature.
 */
public final class MskTokens implements AuthenticateCallbackHandler {
  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'");
  private static final String ALGORITHM = "AWS4-HMAC-SHA256";
  private static final String SERVICE = "kafka-cluster";
  private static final long MAX_SECS = 900;
  private static final long CLOCKS_DIFFER_SECS = 300;
  /** What the client adds once the request is signed. */
  private static final Set<String> NOT_SIGNED = Set.of("X-Amz-Signature", "User-Agent");

  private String region;
  private String accessKey;
  private String secretKey;

  private record Token(String value, String principalName, Long startTimeMs, long lifetimeMs)
      implements OAuthBearerToken {
    @Override
    public Set<String> scope() {
      return Set.of();
    }
  }

  private static final class Refused extends Exception {
    private static final long serialVersionUID = 1L;

    Refused(String why) {
      super(why);
    }
  }

  @Override
  public void configure(Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> entries) {
    Map<String, ?> options = entries.get(0).getOptions();
    region = (String) options.get("region");
    accessKey = (String) options.get("accessKey");
    secretKey = (String) options.get("secretKey");
  }

  @Override
  public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
    for (Callback callback : callbacks) {
      if (!(callback instanceof OAuthBearerValidatorCallback)) {
        throw new UnsupportedCallbackException(callback);
      }
      OAuthBearerValidatorCallback asked = (OAuthBearerValidatorCallback) callback;
      try {
        asked.token(accepted(asked.tokenValue(), Instant.now()));
      } catch (Refused | RuntimeException | GeneralSecurityException e) {
        System.out.println("token refused: " + e.getMessage());
        asked.error("invalid_token", null, null);
      }
    }
  }

  @Override
  public void close() {}

  private Token accepted(String value, Instant now) throws Refused, GeneralSecurityException {
    URI url = URI.create(new String(Base64.getUrlDecoder().decode(value), StandardCharsets.UTF_8));
    expect("scheme", "https", url.getScheme());
    expect("host", "kafka." + region + ".amazonaws.com", url.getHost());
    expect("path", "/", url.getPath());
    TreeMap<String, String> query = parameters(url.getRawQuery());
    expect("action", "kafka-cluster:Connect", query.get("Action"));
    expect("algorithm", ALGORITHM, query.get("X-Amz-Algorithm"));
    expect("signed headers", "host", query.get("X-Amz-SignedHeaders"));
    String time = query.get("X-Amz-Date");
    String scope = time.substring(0, 8) + "/" + region + "/" + SERVICE + "/aws4_request";
    expect("credential", accessKey + "/" + scope, query.get("X-Amz-Credential"));
    Instant signed = LocalDateTime.parse(time, TIME).toInstant(ZoneOffset.UTC);
    long secs = Long.parseLong(query.get("X-Amz-Expires"));
    Instant until = signed.plusSeconds(secs);
    if (secs < 1 || secs > MAX_SECS || signed.isAfter(now.plusSeconds(CLOCKS_DIFFER_SECS))) {
      throw new Refused("its time is wrong");
    }
    if (!now.isBefore(until)) {
      throw new Refused("it has expired");
    }
    String signature = signature(url.getHost(), query, time, scope);
    expect("signature", signature, query.get("X-Amz-Signature"));
    System.out.println("token accepted: " + signature.substring(0, 16));
    return new Token(value, accessKey, signed.toEpochMilli(), until.toEpochMilli());
  }

  private String signature(String host, TreeMap<String, String> query, String time, String scope)
      throws GeneralSecurityException {
    StringBuilder canonical = new StringBuilder();
    query.forEach(
        (name, value) -> {
          if (!NOT_SIGNED.contains(name)) {
            canonical.append(canonical.isEmpty() ? "" : "&").append(encoded(name)).append("=").append(encoded(value));
          }
        });
    String request = String.join("\n", "GET", "/", canonical, "host:" + host, "", "host", sha256(""));
    String text = String.join("\n", ALGORITHM, time, scope, sha256(request));
    byte[] key = ("AWS4" + secretKey).getBytes(StandardCharsets.UTF_8);
    for (String part : scope.split("/")) {
      key = hmac(key, part);
    }
    return HexFormat.of().formatHex(hmac(key, text));
  }

  private static TreeMap<String, String> parameters(String query) {
    TreeMap<String, String> found = new TreeMap<>();
    for (String pair : query.split("&")) {
      String[] parts = pair.split("=", 2);
      found.put(URLDecoder.decode(parts[0], StandardCharsets.UTF_8), URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
    }
    return found;
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
  }

  private static String sha256(String text) throws GeneralSecurityException {
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    return HexFormat.of().formatHex(digest.digest(text.getBytes(StandardCharsets.UTF_8)));
  }

  private static byte[] hmac(byte[] key, String text) throws GeneralSecurityException {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(key, "HmacSHA256"));
    return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
  }

  private static void expect(String what, String expected, String found) throws Refused {
    if (!expected.equals(found)) {
      throw new Refused("its " + what + " is another one");
    }
  }
}
