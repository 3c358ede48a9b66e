// Evaluated after the prelude in the engines of lambdas that mention `FusionAuth`.
(function () {
  "use strict";
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  // Active Directory stores the first three groups of an objectGUID in little-endian order.
  function b64GuidToString_(guid) {
    if (typeof guid !== "string" || !/^[A-Za-z0-9+/]{22}==$/.test(guid)) {
      throw new TypeError("b64GuidToString expects an objectGUID: 16 bytes in Base64");
    }
    const bytes = [];
    for (let i = 0, bits = 0, held = 0; i < 22; i++) {
      held = (held << 6 | alphabet.indexOf(guid[i])) & 0xffff;
      bits += 6;
      if (bits >= 8) bytes[bytes.length] = held >> (bits -= 8) & 0xff;
    }
    let id = "";
    for (const group of [[3, 2, 1, 0], [5, 4], [7, 6], [8, 9], [10, 11, 12, 13, 14, 15]]) {
      if (id) id += "-";
      for (const i of group) id += (bytes[i] < 16 ? "0" : "") + bytes[i].toString(16);
    }
    return id;
  }
  globalThis.FusionAuth = {ActiveDirectory: {b64GuidToString: b64GuidToString_}};
})()
