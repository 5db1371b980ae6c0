import { Link } from "@tanstack/react-router";

interface Props {
  model: string;
  version: number;
  title?: string;
}

/** To the page of a version of a model, written `model:version`. */
export function VersionLink({ model, version, title }: Props) {
  return (
    <Link to="/models/$name/versions/$number" params={{ name: model, number: String(version) }} title={title}>
      {model}:{version}
    </Link>
  );
}
