import { useMantineColorScheme } from "@mantine/core";
import { useEffect } from "react";
import { flushSync } from "react-dom";

/** Prints every page in the light theme, as paper is; charts are drawn again for it first. */
export function LightOnPaper() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  useEffect(() => {
    const begin = (): void => {
      window.addEventListener("afterprint", () => setColorScheme(colorScheme), { once: true });
      flushSync(() => setColorScheme("light"));
    };
    window.addEventListener("beforeprint", begin);
    return () => window.removeEventListener("beforeprint", begin);
  }, [colorScheme, setColorScheme]);
  return null;
}
