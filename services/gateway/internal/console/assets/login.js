"use strict";
// The code stands behind the # of the address, which no server and no log sees. It leaves the address at once.
const code = document.getElementById("code");
if (code && location.hash.length > 1) {
  code.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
}
