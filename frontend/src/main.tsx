import "./app/mantineStyles";
import "@fontsource-variable/inter/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "./app/theme.css";

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { App } from "./app/App";
import { initI18n } from "./i18n";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
await initI18n();
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
