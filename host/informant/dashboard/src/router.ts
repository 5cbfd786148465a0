// Routes in the hash, so that static files suffice. Every name in a path is encoded.

import { useLayoutEffect, useState } from "preact/hooks";
import type { ObjectRef } from "./types";

export interface ObjectKey {
  /** Empty for the only one. */
  cluster: string;
  resource: string;
  namespace: string;
  name: string;
}

export type Route =
  | { page: "overview" | "plugins" | "sources" | "replicas" | "unknown"; query: URLSearchParams }
  | { page: "plugin"; name: string; query: URLSearchParams }
  | { page: "object"; key: ObjectKey | null; query: URLSearchParams };

/** Stands for "no namespace" in the path of an object. */
const NO_NAMESPACE = "-";

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function parse(hash: string): Route {
  const [way = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const parts = way.split("/").filter(Boolean).map(decode);
  const query = new URLSearchParams(search);
  const [page, first, second, third] = parts;
  if (page === undefined) return { page: "overview", query };
  if (page === "plugins" && parts.length === 2) return { page: "plugin", name: first!, query };
  if (page === "object" && parts.length === 1) return { page, key: null, query };
  if (page === "object" && parts.length === 4) {
    const namespace = second === NO_NAMESPACE ? "" : second!;
    return { page, key: { cluster: query.get("cluster") ?? "", resource: first!, namespace, name: third! }, query };
  }
  if ((page === "plugins" || page === "sources" || page === "replicas") && parts.length === 1) return { page, query };
  return { page: "unknown", query };
}

export function pluginLink(name: string): string {
  return `#/plugins/${encodeURIComponent(name)}`;
}

export function objectLink({ cluster, resource, namespace, name = "" }: ObjectRef): string {
  const way = [resource, namespace || NO_NAMESPACE, name].map(encodeURIComponent).join("/");
  return `#/object/${way}${cluster ? `?cluster=${encodeURIComponent(cluster)}` : ""}`;
}

export function sourceLink(id: number): string {
  return `#/sources?${new URLSearchParams({ filter: `#${id}` })}`;
}

/** Changes the query of the current route without a new entry in the browser's history. */
export function setQuery(values: Record<string, string>): void {
  const [way = ""] = location.hash.split("?");
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
  const search = query.toString();
  window.history.replaceState(null, "", (way || "#/") + (search ? `?${search}` : ""));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parse(location.hash));
  useLayoutEffect(() => {
    const update = () => setRoute(parse(location.hash));
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return route;
}
