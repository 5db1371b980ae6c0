import { useMediaQuery } from "@mantine/hooks";

/** Whether the window is as narrow as a phone's: the same width as in the styles. */
export const usePhone = (): boolean => useMediaQuery("(max-width: 720px)", false, { getInitialValueInEffect: false });
