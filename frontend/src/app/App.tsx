import { createTheme, localStorageColorSchemeManager, MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";

import { ApiError, network } from "../api/client";
import { LightOnPaper } from "./LightOnPaper";
import { createAppRouter, startEarly } from "./router";

const theme = createTheme({
  fontFamily: "var(--mantine-font-family)",
  fontFamilyMonospace: "var(--mantine-font-family-monospace)",
  defaultRadius: "sm",
  cursorType: "pointer",
  components: {
    Button: { defaultProps: { size: "xs" } },
    TextInput: { defaultProps: { size: "xs" } },
    PasswordInput: { defaultProps: { size: "sm" } },
    Select: { defaultProps: { size: "xs" } },
    MultiSelect: { defaultProps: { size: "xs" } },
    NumberInput: { defaultProps: { size: "xs" } },
    SegmentedControl: { defaultProps: { size: "xs" } },
    Switch: { defaultProps: { size: "xs" } },
    Checkbox: { defaultProps: { size: "xs" } },
    // Locking the page's scroll injects a <style> element, which the content security policy forbids.
    Modal: { defaultProps: { lockScroll: false, radius: "md", transitionProps: { duration: 100 } } },
    // A <header> in a dialog counts as a second banner of the page.
    ModalHeader: { defaultProps: { role: "presentation" } },
    Drawer: { defaultProps: { lockScroll: false } },
    Tooltip: { defaultProps: { openDelay: 250, fz: "xs" } },
    // By keys, one goes on where one was.
    Popover: { defaultProps: { returnFocus: true } },
    Menu: { defaultProps: { transitionProps: { duration: 80 } } },
  },
});

const colorScheme = localStorageColorSchemeManager({ key: "muster.theme" });

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5000,
      refetchOnWindowFocus: false, // the live channel tells when the tab is shown again
      retry: (failures, error) => {
        if (error instanceof ApiError && error.status > 0 && error.status < 500) return false;
        return failures < 1;
      },
      retryDelay: 800,
      networkMode: "always", // a dashboard on localhost works without the internet
    },
    mutations: { networkMode: "always" },
  },
});

const router = createAppRouter(queryClient);
startEarly(router, queryClient);

network.onUnauthenticated = () => {
  if (queryClient.getQueryData(["me"])) {
    queryClient.removeQueries({ queryKey: ["me"] });
    void router.invalidate();
  }
};

export function App() {
  return (
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      colorSchemeManager={colorScheme}
      // Both would inject <style> elements; theme.css holds the variables instead.
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <LightOnPaper />
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  );
}
