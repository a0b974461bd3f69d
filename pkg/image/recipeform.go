package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// maxRecipe bounds the file, in bytes.
const maxRecipe = 256 << 10

// readRecipe reads garrison.yaml in root, and adds the faults of its keys.
func readRecipe(faults *manifest.Faults, root *os.Root) (*recipe, error) {
	f, err := openRegular(root, RecipeName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Refuse(fault.Invalid, &apiv1.Refusal{
			Code: code.BadRecipe, Message: root.Name() + " has no " + RecipeName, Try: "garrison image build " +
				"--help, which shows one",
		})
	}
	if err != nil {
		return nil, refuse(code.BadRecipe, "%s %s", RecipeName, unreadable(err))
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxRecipe+1))
	if err != nil {
		return nil, refuse(code.BadRecipe, "%s %s", RecipeName, unreadable(err))
	}
	if len(data) > maxRecipe {
		return nil, refuse(code.BadRecipe, "%s has more than %d bytes", RecipeName, maxRecipe)
	}
	return parseRecipe(faults, data)
}

func parseRecipe(f *manifest.Faults, data []byte) (*recipe, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, refuse(code.BadRecipe, "%s: %v", RecipeName, err)
	}
	var all map[string]any
	if err := json.Unmarshal(asJSON, &all); err != nil || all == nil {
		return nil, refuse(code.BadRecipe, "%s is not a map of keys, such as agent: beacon", RecipeName)
	}
	checkKeys(f, "", all)
	r := &recipe{}
	if err := json.Unmarshal(asJSON, r); err != nil {
		field, why := wrongType(err)
		f.Add(field, code.BadRecipe, "%s: %s", RecipeName, why)
		if field == "" { // the rest was not read
			return nil, f.Err()
		}
	}
	return r, nil
}

// keys lists the keys allowed at each position of the file; tags and env hold any key.
var keys = map[string][]string{
	"": {
		"agent",
		"version",
		"kind",
		"os",
		"arch",
		"description",
		"tags",
		"executor_version",
		"conflicts",
		"upgrades_from",
		"skips",
		"floor",
		"requires",
		"machine",
		"run",
	},
	"run.": {
		"command",
		"args",
		"env",
		"takeover",
		"ready",
		"stop_timeout",
		"sockets",
		"configs",
		"reload",
		"rehearsal",
		"limits",
		"sandbox",
	},
	"machine.":        {"kernel", "distributions", "cgroup_v2", "memory", "disk"},
	"run.configs.":    {"template", "path", "mode"},
	"run.rehearsal.":  {"command", "args"},
	"run.ready.":      {"notify", "http", "tcp", "exec", "timeout", "soak", "bus", "restart_after"},
	"run.ready.exec.": {"command", "args"},
	"run.sockets.":    {"name", "listen"},
	"run.limits.":     {"memory", "cpu", "tasks", "open_files"},
	"run.sandbox.": {
		"user",
		"no_new_privileges",
		"read_only_system",
		"writable",
		"private_tmp",
		"no_homes",
		"capabilities",
	},
}

// checkKeys adds unknown keys at any depth. The spelling must match exactly.
func checkKeys(f *manifest.Faults, at string, have map[string]any) {
	for _, k := range slices.Sorted(mapKeys(have)) {
		if !slices.Contains(keys[at], k) {
			f.Add(at+k, code.BadRecipe, "%s has the unknown key %s%s (known there: %s)", RecipeName, at, k,
				strings.Join(keys[at], ", "))
		}
		deeper := at + k + "."
		for _, inner := range mapsIn(have[k]) {
			if keys[deeper] != nil {
				checkKeys(f, deeper, inner)
			}
		}
	}
}

// mapsIn returns the value itself if it is a map, or the maps in it if it is a list.
func mapsIn(value any) (out []map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		out = append(out, v)
	case []any:
		for _, each := range v {
			out = append(out, mapsIn(each)...)
		}
	}
	return out
}

func mapKeys(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// wrongType names the value whose type differs from the type of its key, and says so in words of YAML.
func wrongType(err error) (field, why string) {
	var e *json.UnmarshalTypeError
	if !errors.As(err, &e) {
		return "", strings.TrimPrefix(err.Error(), "json: ")
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
	return e.Field, fmt.Sprintf("%s is of type %s, want %s", e.Field, have, want)
}

// forms shows the right form of each key whose value is no text and no truth value.
var forms = map[string]string{
	"tags":                     `{team: web}`,
	"conflicts":                `[old-beacon]`,
	"upgrades_from":            `[">=0.5.0"]`,
	"skips":                    `["0.6.0"]`,
	"requires":                 `{db: ">=2.0.0"}`,
	"machine":                  `{kernel: "5.10"}`,
	"machine.distributions":    `{debian: "12"}`,
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

// mode is the mode of a file: octal, as a number such as 0640 or as text such as "0640".
type mode uint32

// UnmarshalJSON reads a mode. YAML has read a number with a leading 0 as octal.
func (m *mode) UnmarshalJSON(data []byte) error {
	var number uint32
	if err := json.Unmarshal(data, &number); err == nil {
		*m = mode(number)
		return nil
	}
	var text string
	err := json.Unmarshal(data, &text)
	if err == nil {
		var octal uint64
		octal, err = strconv.ParseUint(strings.TrimPrefix(text, "0o"), 8, 32)
		*m = mode(octal)
	}
	if err != nil {
		return fmt.Errorf("run.configs.mode %s is not a mode; write it as 0640", data)
	}
	return nil
}
