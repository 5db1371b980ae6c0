import { localStorageColorSchemeManager, MantineProvider } from "@mantine/core";
import { render } from "@testing-library/react";
import { act } from "react";
import { expect, test } from "vitest";

import { LightOnPaper } from "./LightOnPaper";

test("a page in the dark theme is printed in the light one, and dark again afterwards", () => {
  const scheme = (): string | undefined => document.documentElement.dataset["mantineColorScheme"];
  render(
    <MantineProvider
      defaultColorScheme="dark"
      colorSchemeManager={localStorageColorSchemeManager({ key: "theme" })}
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <LightOnPaper />
    </MantineProvider>,
  );
  expect(scheme()).toBe("dark");
  act(() => void window.dispatchEvent(new Event("beforeprint")));
  expect(scheme()).toBe("light");
  act(() => void window.dispatchEvent(new Event("afterprint")));
  expect(scheme()).toBe("dark");
});
