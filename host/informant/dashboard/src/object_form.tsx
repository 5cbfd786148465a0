// The form that opens the page of one object.

import { h } from "preact";
import { useState } from "preact/hooks";
import { useCell } from "./cell";
import { sources } from "./feeds";
import { objectLink, type ObjectKey } from "./router";

export function ObjectForm({ start }: { start: ObjectKey | null }) {
  const [resource, setResource] = useState(start?.resource ?? "");
  const [namespace, setNamespace] = useState(start?.namespace ?? "");
  const [name, setName] = useState(start?.name ?? "");
  const known = useCell(sources).rows;
  const resources = [...new Set([...known.values()].map((row) => row.resource))].sort();

  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    location.hash = objectLink({ resource: resource.trim(), namespace: namespace.trim(), name: name.trim() });
  };

  const input = { autocomplete: "off", autocapitalize: "off", spellcheck: false } as const;
  return (
    <form class="tools" role="search" aria-label="Object" onSubmit={submit}>
      <label class="field">
        <span>Resource</span>
        <input
          {...input}
          required
          list="resources"
          placeholder="v1/pods"
          value={resource}
          onInput={(event) => setResource(event.currentTarget.value)}
        />
      </label>
      <datalist id="resources">
        {resources.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      <label class="field">
        <span>Namespace</span>
        <input
          {...input}
          placeholder="none if cluster-scoped"
          value={namespace}
          onInput={(event) => setNamespace(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>Name</span>
        <input {...input} required value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <button type="submit" class="primary">
        Show
      </button>
    </form>
  );
}
