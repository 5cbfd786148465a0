// The form that opens the page of one object.

import { h } from "preact";
import { useCell } from "./cell";
import { sources } from "./feeds";
import { objectLink, type ObjectKey } from "./router";

export function ObjectForm({ start }: { start: ObjectKey | null }) {
  const known = [...useCell(sources).rows.values()];
  const resources = [...new Set(known.map((row) => row.resource))].sort();

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const value = (key: keyof ObjectKey) => ((form.get(key) ?? "") as string).trim();
    location.hash = objectLink({
      cluster: value("cluster"),
      resource: value("resource"),
      namespace: value("namespace"),
      name: value("name"),
    });
  };

  const field = (key: keyof ObjectKey, label: string, placeholder?: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        name={key}
        list={key}
        defaultValue={start?.[key]}
        placeholder={placeholder}
        required={key === "resource" || key === "name"}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
      />
    </label>
  );
  return (
    <form class="tools" role="search" aria-label="Object" onSubmit={submit}>
      {(start?.cluster || known.some((row) => row.cluster)) && field("cluster", "Cluster", "all")}
      {field("resource", "Resource", "v1/pods")}
      <datalist id="resource">
        {resources.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      {field("namespace", "Namespace", "none if cluster-scoped")}
      {field("name", "Name")}
      <button type="submit" class="primary">
        Show
      </button>
    </form>
  );
}
