import { Component, type ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { Notice } from "./basics";

function Broken({ error }: { error: Error }) {
  const { t } = useTranslation();
  return (
    <Notice tone="bad" title={t("error.panel")}>
      <span className="mono">{error.message}</span>
    </Notice>
  );
}

/** A panel that breaks takes only itself down. */
export class ErrorBoundary extends Component<{ children: ReactNode; resetKey?: string }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override componentDidUpdate(previous: { resetKey?: string }): void {
    if (previous.resetKey !== this.props.resetKey && this.state.error) this.setState({ error: null });
  }

  override render(): ReactNode {
    return this.state.error ? <Broken error={this.state.error} /> : this.props.children;
  }
}
