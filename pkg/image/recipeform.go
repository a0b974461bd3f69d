package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// wrongType names the value whose type differs from the type of its key, in words of YAML.
func wrongType(err error) string {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	have, _, _ := strings.Cut(e.Value, " ") // "number 1.5" is a number
	have = strings.NewReplacer("array", "list", "object", "map").Replace(have)
	want := "the form " + e.Field[strings.LastIndex(e.Field, ".")+1:] + ": " + forms[e.Field]
	switch e.Type.Kind() {
	case reflect.String:
		want = "text, in quotes when it looks like a number"
	case reflect.Bool:
		want = "true or false"
	}
	return fmt.Sprintf("%s is of type %s, want %s", e.Field, have, want)
}

// forms shows the right form of each key whose value is no text and no truth value.
var forms = map[string]string{
	"tags":                     `{team: web}`,
	"conflicts":                `[old-beacon]`,
	"upgrades_from":            `[">=0.5.0"]`,
	"skips":                    `["0.6.0"]`,
	"requires":                 `{db: ">=2.0.0"}`,
	"run":                      `{command: beacon}`,
	"run.args":                 `["-listen", "127.0.0.1:8080"]`,
	"run.env":                  `{STATE: "${state}"}`,
	"run.ready":                `{http: "http://127.0.0.1:8080/"}`,
	"run.ready.restart_after":  `4`,
	"run.ready.exec":           `{command: check, args: ["-quick"]}`,
	"run.sockets":              `[{name: http, listen: "127.0.0.1:8080"}]`,
	"run.limits":               `{memory: 64MiB}`,
	"run.limits.tasks":         `20`,
	"run.limits.open_files":    `1024`,
	"run.sandbox":              `{user: beacon}`,
	"run.sandbox.writable":     `[/var/log/beacon]`,
	"run.sandbox.capabilities": `[CAP_NET_BIND_SERVICE]`,
	"run.configs":              `[{template: etc/beacon.conf, path: beacon.conf, mode: 0640}]`,
	"run.rehearsal":            `{command: beacon, args: ["-check"]}`,
	"run.rehearsal.args":       `["-check"]`,
	"run.ready.exec.args":      `["-quick"]`,
}
