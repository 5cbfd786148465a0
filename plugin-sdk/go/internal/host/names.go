package host

// The names of the contract's enum cases, by their numbers. Numbers beyond the end are "other".
var (
	Reasons = []string{
		"initial", "watch", "relist", "resync", "replay", "requeue", "reconfigured", "restored", "requeue-after",
		"trigger", "related", "takeover", "other",
	}
	ErrorCodes = []string{
		"denied", "not-here", "not-ready", "not-found", "unknown-informer", "unknown-index", "too-large", "exhausted",
		"conflict", "timeout", "stale", "unavailable", "unsupported", "invalid", "other",
	}
	APIErrorCodes = []string{
		"denied", "not-here", "forbidden", "unauthorized", "not-found", "already-exists", "conflict", "invalid",
		"expired", "too-large", "too-many-requests", "timeout", "unavailable", "unsupported", "other",
	}
	SourceStates = []string{
		"syncing", "live", "stale", "waiting-for-resource", "forbidden", "refused", "stopped", "other",
	}
	Levels = []string{"trace", "debug", "info", "warn", "error"}
)

// Name returns the name of a case.
func Name(names []string, number uint8) string {
	if int(number) < len(names) {
		return names[number]
	}
	return "other"
}

// Number returns the number of a name, which must be one of names.
func Number(names []string, name string) uint8 {
	for number, found := range names {
		if found == name {
			return uint8(number)
		}
	}
	panic("not a case of the contract: " + name)
}
