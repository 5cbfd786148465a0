package informant

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"informant.example/plugin-sdk/go/internal/host"
)

// LevelTrace is below slog.LevelDebug.
const LevelTrace = slog.LevelDebug - 4

// logLevel is the lowest level that Informant logs.
var logLevel = LevelTrace

func init() {
	slog.SetDefault(slog.New(&LogHandler{}))
}

// setLogLevel takes the level from the context of init.
func setLogLevel(name string) {
	logLevel = slog.LevelError + 1
	for level := LevelTrace; level <= slog.LevelError; level += 4 {
		if levelName(level) == name {
			logLevel = level
		}
	}
}

// LogHandler writes to Informant's log. It is the handler of slog's default logger. A value that is a number, a
// boolean, a list or a struct is logged as JSON.
type LogHandler struct {
	// Of the groups, "a.b."; the fields have it already.
	prefix string
	fields [][2]string
}

var _ slog.Handler = (*LogHandler)(nil)

// Enabled reports whether Informant logs lines of this level.
func (h *LogHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= logLevel
}

// Handle writes a line.
func (h *LogHandler) Handle(_ context.Context, record slog.Record) error {
	fields := h.fields[:len(h.fields):len(h.fields)]
	record.Attrs(func(attr slog.Attr) bool {
		fields = appendField(fields, h.prefix, attr)
		return true
	})
	if host.Current == nil {
		// A native test without a fake.
		fmt.Fprintln(os.Stderr, levelName(record.Level)+":", record.Message, fields)
		return nil
	}
	host.Current.Log(host.Number(host.Levels, levelName(record.Level)), record.Message, fields)
	return nil
}

// WithAttrs returns a handler that adds these attributes to each line.
func (h *LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := &LogHandler{h.prefix, h.fields[:len(h.fields):len(h.fields)]}
	for _, attr := range attrs {
		with.fields = appendField(with.fields, h.prefix, attr)
	}
	return with
}

// WithGroup returns a handler that writes "NAME." before the names of the attributes added later.
func (h *LogHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &LogHandler{h.prefix + name + ".", h.fields}
}

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "trace"
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	default:
		return "error"
	}
}

func appendField(fields [][2]string, prefix string, attr slog.Attr) [][2]string {
	value := attr.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if attr.Key != "" {
			prefix += attr.Key + "."
		}
		for _, member := range value.Group() {
			fields = appendField(fields, prefix, member)
		}
		return fields
	}
	if attr.Equal(slog.Attr{}) {
		return fields
	}
	return append(fields, [2]string{prefix + attr.Key, fieldText(value)})
}

// fieldText writes a value for the log, which takes JSON as such and anything else as text.
func fieldText(value slog.Value) string {
	switch value.Kind() {
	case slog.KindString:
		return text(value.String())
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool:
		return value.String()
	case slog.KindDuration:
		return value.Duration().String()
	case slog.KindTime:
		return value.Time().Format(time.RFC3339Nano)
	}
	switch v := value.Any().(type) {
	case json.Marshaler:
	case error:
		return text(v.Error())
	case fmt.Stringer:
		return text(v.String())
	}
	document, err := json.Marshal(value.Any())
	if err != nil {
		return text(fmt.Sprint(value.Any()))
	}
	if written := ""; json.Unmarshal(document, &written) == nil && string(document) != "null" {
		return text(written)
	}
	return string(document)
}

// text quotes a string that is JSON by chance, such as "5".
func text(value string) string {
	if value == "" || !strings.ContainsRune(`{["-0123456789tfn `+"\t\n\r", rune(value[0])) || !json.Valid([]byte(value)) {
		return value
	}
	quoted, _ := json.Marshal(value)
	return string(quoted)
}
