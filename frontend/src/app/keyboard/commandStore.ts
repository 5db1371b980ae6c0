/** Whether the command menu is open; asked before its code is there, too. */
import { createSpotlight } from "@mantine/spotlight";

export const [commandStore, command] = createSpotlight();
