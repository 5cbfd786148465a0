// Gives the namespaces of a team their quota, network policy and role binding. README.md says how.
import { Permanent, config, kube, log, recorder } from "informant";

const { teams = {}, quota = {}, role = "edit", "allow-from": allowFrom = [], ...rest } = config;
const [unknown] = Object.keys(rest);
if (unknown !== undefined) {
  throw new Permanent(`config: unknown key \`${unknown}\`, expected \`teams\`, \`quota\`, \`role\` or \`allow-from\``);
}
for (const [name, { group, quota, ...rest }] of Object.entries(teams)) {
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) {
    throw new Permanent(`config: unknown key \`${unknown}\` in teams.${name}, expected \`group\` or \`quota\``);
  }
  if (typeof group !== "string" || group === "") throw new Permanent(`config: name the group of teams.${name}`);
}

const LABEL = "/metadata/labels/team";
const NETWORKING = "networking.k8s.io";
const RBAC = "rbac.authorization.k8s.io";

// What says that an object belongs to its namespace.
const OWNED = ["labels", "/metadata/ownerReferences"];

export const manifest = {
  name: "namespace-provisioner",
  version: "0.1.0",
  reconciler: {
    // Without a selector: a namespace may have lost its label while Informant was stopped.
    for: {
      apiVersion: "v1",
      kind: "Namespace",
      payload: { fields: ["/metadata/name", "/metadata/deletionTimestamp", LABEL] },
      when: [LABEL],
    },
    owns: [
      // Its status changes with each pod.
      { apiVersion: "v1", kind: "ResourceQuota", when: [...OWNED, "/spec"] },
      { apiVersion: `${NETWORKING}/v1`, kind: "NetworkPolicy", when: [...OWNED, "/spec"] },
      { apiVersion: `${RBAC}/v1`, kind: "RoleBinding", when: [...OWNED, "/roleRef", "/subjects"] },
    ],
  },
  needs: [{ events: {} }],
};

const quotaOf = (namespace, team) => {
  const hard = { ...quota, ...team.quota };
  if (Object.keys(hard).length === 0) return [];
  return [{ apiVersion: "v1", kind: "ResourceQuota", metadata: { namespace, name: "team" }, spec: { hard } }];
};

const networkPolicyOf = (namespace) => {
  const namespaces = allowFrom.map((name) => ({ matchLabels: { "kubernetes.io/metadata.name": name } }));
  // A pod selector without a namespace selector is about the policy's own namespace.
  const from = [{ podSelector: {} }, ...namespaces.map((namespaceSelector) => ({ namespaceSelector }))];
  const spec = { podSelector: {}, policyTypes: ["Ingress"], ingress: [{ from }] };
  return { apiVersion: `${NETWORKING}/v1`, kind: "NetworkPolicy", metadata: { namespace, name: "team" }, spec };
};

const roleBindingOf = (namespace, { group }) => ({
  apiVersion: `${RBAC}/v1`,
  kind: "RoleBinding",
  // The API server refuses another role in a binding that exists. So each role has a binding of its own.
  metadata: { namespace, name: `team-${role}` },
  roleRef: { apiGroup: RBAC, kind: "ClusterRole", name: role },
  subjects: [{ apiGroup: RBAC, kind: "Group", name: group }],
});

const objectsOf = (namespace, team) => [
  ...quotaOf(namespace, team),
  networkPolicyOf(namespace),
  roleBindingOf(namespace, team),
];

export function reconcile(namespace, request) {
  // The API server deletes what is in it.
  if (namespace === undefined || namespace.metadata.deletionTimestamp !== undefined) return;
  const warn = (reason, note) => recorder.event(request, { type: "Warning", reason, action: "Keep", note });

  const name = namespace.metadata.labels?.team;
  const isKnown = name !== undefined && Object.hasOwn(teams, name);
  if (name !== undefined && !isKnown) {
    // A typo takes nothing away.
    warn("UnknownTeam", `config.toml has no team "${name}": the objects in the namespace stay as they are`);
    return;
  }

  const whole = isKnown ? objectsOf(request.name, teams[name]) : [];
  const { written, pruned, refused } = kube.children(request, { whole });
  if (written + pruned > 0) log.info(`${request}: ${written} objects written, ${pruned} deleted`);
  if (refused.length > 0) warn("NotReplaced", `Kept, because others have made it: ${refused.join(", ")}`);
}
