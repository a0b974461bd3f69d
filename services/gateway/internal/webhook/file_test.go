package webhook

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestEachFaultOfTheFileIsListedWithItsLine(t *testing.T) {
	w := &world{T: t, file: t.TempDir() + "/webhooks.yaml"}
	for text, want := range map[string]string{
		"":                                       "line 1: as: is missing",
		"as: a\nroutes: {}":                      "line 2: routes is not a list",
		"as: a\nas: b":                           `line 2: the file has the key "as" twice`,
		"as: a\nrutes: []":                       `line 2: the file has no key "rutes". Nearest: routes`,
		"as: a\n---\nas: b":                      "a second document",
		"as: a\n---\nroutes: [":                  "a second document",
		"as: a\nconsole: garrison":               "line 2: want an address",
		"as: a\nroutes:\n- x":                    "line 3: a route is not a mapping",
		"as: a\nroutes:\n- {name: x}":            "line 3: a route needs a name and a url",
		"as: a\nroutes:\n- {name: 'a b'}":        "line 3: ",
		"as: [":                                  "line 1",
		"as: a\nroutes:\n- &x {name: y}\n- *x":   "line 4: a route is not a mapping",
		"as: a\nroutes:\n" + manyRoutes:          "33 routes; 32 are the most",
		"as: a\n# " + strings.Repeat("x", 1<<19): "262144 are the most",
	} {
		w.faults(text, want)
	}
	for route, want := range map[string]string{
		"url: ftp://SECRET":                 "want an address",
		"url: https://u:p@host/SECRET":      "neither a user nor a fragment",
		"url: http://host/SECRET":           "a url without TLS needs allow:",
		"noun: tusk":                        `no noun "tusk". Nearest: task`,
		"fact: [fialed]":                    `no fact "fialed". Nearest: `,
		"noun: user\n  fact: halted":        "no noun of the route has such a fact",
		"on: env":                           "env",
		"format: xml":                       `no format "xml"`,
		"format: binary\n  body: '1'":       "exclude each other",
		"body: '{{.Sentance}}'":             "Sentance",
		"body: '{{'":                        "body",
		"body: '\"{{.Sentence}}\"'":         "not JSON; write each text with json",
		"allow: 10.0.0.1/8":                 "want networks, such as 10.1.0.0/16",
		"allow: [10.0.0.0/8, x]":            "want networks, such as 10.1.0.0/16",
		"allow: [https://host/SECRET]":      "want networks, such as 10.1.0.0/16",
		"url:https://host/SECRET: 1":        "a route has no key of this form",
		"url: HTTP://host/SECRET":           "a url without TLS needs allow:",
		"format: [structured, binary]":      "a route has one format",
		"ca: missing.pem":                   "missing.pem",
		"from: -1":                          "a whole number from 1",
		"actor: ''":                         "want a text that is not empty",
		"name: one":                         `has the key "name" twice`,
		"retry: 5":                          `no key "retry"`,
		"agent: {}":                         "want a text that is not empty",
		"body: '{{range 9999999}}{{end}}1'": "a body has neither range nor template",
		"body: '{{if .Note}}{{else}}{{range .}}{{end}}{{end}}1'": "a body has neither range nor template",
		"body: '{{$x := printf \"%s\" .Key}}{{json $x}}'":        "a body writes texts with json alone",
	} {
		text := "as: a\nroutes:\n- name: one\n  " + route
		if !strings.HasPrefix(route, "url") {
			text += "\n  url: https://example.com/SECRET"
		}
		w.faults(text, want)
	}
	w.faults("as: a\nroutes:\n- {name: a, url: x}\n- {name: a, nuon: task}", "line 3: want an address",
		`line 4: two routes have the name "a"`, `line 4: a route has no key "nuon". Nearest: noun`)
}

var manyRoutes = strings.Repeat("- {}\n", mostRoutes+1)

// faults expects a file to be refused.
func (w *world) faults(text string, wants ...string) {
	w.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	_, err := readFile(w.file)
	for _, want := range wants {
		if fault.RefusalOf(err).GetCode() != code.BadDeclaration || !strings.Contains(err.Error(), want) {
			w.Errorf("%.80q: %v, want %s with %q", text, err, code.BadDeclaration, want)
		}
	}
	if strings.Contains(fmt.Sprint(err), "SECRET") {
		w.Errorf("%.80q: the fault shows the address: %v", text, err)
	}
}

func TestAFileThatOthersCanReadIsRefused(t *testing.T) {
	w := newWorld(t)
	w.routes("  []\n")
	if err := os.Chmod(w.file, 0o640); err != nil {
		t.Fatal(err)
	}
	_, err := w.command(Command{})
	if fault.RefusalOf(err).GetCode() != code.UnsafePermissions || !strings.Contains(err.Error(), "chmod go-rwx") {
		t.Errorf("%v, want %s and the command", err, code.UnsafePermissions)
	}
}
