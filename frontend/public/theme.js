// Runs before the first paint, so that a dark page never flashes white. A file of its own because
// the content security policy allows no inline script.
(function () {
  var scheme = null;
  var language = null;
  try {
    scheme = localStorage.getItem("muster.theme");
    language = localStorage.getItem("muster.language");
  } catch {
    // Storage may be blocked; the system's preference is used then.
  }
  if (scheme !== "light" && scheme !== "dark") {
    scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  document.documentElement.setAttribute("data-mantine-color-scheme", scheme);
  if (language) document.documentElement.lang = language;
})();
