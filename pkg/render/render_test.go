package render_test

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/render"
)

var data = render.Data{
	Agent: "beacon", Version: "1.0.0", Server: "s", State: "/state", Image: "/image", Config: "/config",
	Labels:   map[string]string{"rack": "a", "data-centre": "x"},
	Metadata: map[string]string{"level": "info", "odd": "a\"<b>\nc", "evil": "{{.server}}"},
}

func rendered(t *testing.T, text string) (string, error) {
	t.Helper()
	tmpl, err := render.Parse("test", text)
	if err != nil {
		return "", err
	}
	out, err := tmpl.Render(data)
	if again, _ := tmpl.Render(data); string(again) != string(out) {
		t.Errorf("%s renders %q, and then %q", text, out, again)
	}
	return string(out), err
}

func TestATemplateBecomesItsText(t *testing.T) {
	for text, want := range map[string]string{
		"{{.agent}} {{.version}} {{.server}} {{.state}} {{.image}} {{.config}}": "beacon 1.0.0 s /state /image /config",
		"{{.labels.rack}}{{.metadata.level}}":                                   "ainfo",
		`{{lookup .labels "data-centre"}}{{index .labels "rack"}}`:              "xa",
		`{{lookup .metadata "none" "else"}}`:                                    "else",
		`{{quote .metadata.odd}}`:                                               `"a\"<b>\nc"`,
		`{{json .labels}}`:                                                      `{"data-centre":"x","rack":"a"}`,
		// what is filled in is not looked at again
		`{{.metadata.evil}}`: "{{.server}}",
		`{{range $k, $v := .labels}}{{$k}}={{$v}};{{else}}none{{end}}`:   "data-centre=x;rack=a;",
		`{{define "x"}}<{{.}}>{{end}}{{template "x" .agent}}`:            "<beacon>",
		`{{if eq .metadata.level "info"}}yes{{else}}no{{end}}`:           "yes",
		`{{with .agent}}{{printf "%s-%d" . 7}}{{end}}`:                   "beacon-7",
		`{{printf "%-6s|%06.2f|%*d|%[1]q|%%|%[5]x" .agent 1.5 4 7 "k"}}`: `beacon|001.50|   7|"beacon"|%|6b`,
	} {
		if got, err := rendered(t, text); err != nil || got != want {
			t.Errorf("%s renders %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestWhatIsNotThereOrNotAllowedIsAnError(t *testing.T) {
	for _, text := range []string{
		"{{.metadata.none}}", "{{.labels.none}}", "{{.none}}", "{{.agent.x}}",
		`{{lookup .metadata "none"}}`, `{{index .labels "none"}}`,
		`{{printf "%s"}}`, `{{printf "x" 1}}`, `{{printf "%"}}`, `{{printf "%1000001d" 1}}`, `{{printf "%*d" "x" 1}}`,
		"{{", "{{none}}", "{{if}}", `{{template "none"}}`, `{{html "a"}}`, `{{js "a"}}`, `{{urlquery "a"}}`,
		strings.Repeat("x", render.MaxTemplate+1),
	} {
		if got, err := rendered(t, text); err == nil {
			t.Errorf("%.40s renders %.40q", text, got)
		}
	}
}

// long is a template that sets a variable of 1 MiB.
const long = `{{$x := "0123456789abcdef"}}{{range 16}}{{$x = print $x $x}}{{end}}`

// What a template can do wrong costs a bounded time and a bounded memory.
// processorTime returns what this process has used: on a busy machine the time of day says nothing of a rendering.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func TestRenderingEnds(t *testing.T) {
	for name, text := range map[string]string{
		"a loop without output":    "{{range 1000000000}}{{end}}",
		"loops in loops":           "{{range 100000}}{{range 100000}}{{if true}}{{end}}{{end}}{{end}}",
		"a loop in a condition":    "{{if true}}{{range 1000000000}}{{end}}{{end}}",
		"a template calls itself":  `{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}`,
		"and twice":                `{{define "a"}}{{template "a" .}}{{template "a" .}}{{end}}{{template "a" .}}`,
		"a text that doubles":      `{{$x := "aaaa"}}{{range 100}}{{$x = print $x $x}}{{end}}`,
		"a text that is escaped":   `{{$x := "\"\""}}{{range 100}}{{$x = quote $x}}{{end}}`,
		"a wide number":            `{{$x := ""}}{{range 100}}{{$x = printf "%s%999999d" $x 1}}{{end}}`,
		"wide numbers in one":      `{{printf "` + strings.Repeat("%999999[1]d", 700) + `" 1}}`,
		"wide numbers by star":     `{{printf "` + strings.Repeat("%[1]*[2]d", 700) + `" 999999 1}}`,
		"precise numbers in one":   `{{printf "` + strings.Repeat("%.999999[1]d", 700) + `" 1}}`,
		"precise numbers by star":  `{{printf "` + strings.Repeat("%.[1]*[2]f", 700) + `" 999999 1.5}}`,
		"a negative width":         `{{printf "` + strings.Repeat("%[1]*[2]d", 700) + `" -999999 1}}`,
		"a text over and over":     long + `{{printf "` + strings.Repeat("%[1]s", 700) + `" $x}}`,
		"a text that is quoted":    long + `{{printf "` + strings.Repeat("%[1]q", 700) + `" $x}}`,
		"all labels, repeatedly":   `{{print ` + strings.Repeat(" .", 300_000) + `}}`,
		"many long variables":      long + strings.Repeat(`{{$a := print $x}}`, 5000),
		"conditions in each other": strings.Repeat("{{if 1}}", 60_000) + strings.Repeat("{{end}}", 60_000),
		"a large output":           "{{range 10000}}" + strings.Repeat("x", 122) + "{{end}}",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := processorTime(t)
		out, err := rendered(t, text)
		took := processorTime(t) - began
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s renders %d bytes", name, len(out))
		}
		if took > 30*time.Second {
			t.Errorf("%s took %s of a processor", name, took)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 160<<20 {
			t.Errorf("%s used %d MiB", name, used>>20)
		}
		t.Logf("%s: %s, %d MiB, stack %d MiB: %.100v", name, took,
			(after.TotalAlloc-before.TotalAlloc)>>20, after.StackSys>>20, err)
	}
}

func nested(t *testing.T, text string) string {
	t.Helper()
	v, err := metadata.FromJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestATemplateWalksIntoNestedValues(t *testing.T) {
	d := render.Data{Labels: map[string]string{"rack": "a"}, Metadata: map[string]string{
		"level": "info", "port": nested(t, "8080"), "rate": nested(t, "0.5"), "big": nested(t, "18446744073709551615"),
		"on": nested(t, "true"), "peers": nested(t, `["a", {"host": "b"}]`),
		"log": nested(t, `{"file": {"path": "/a<b>", "keep": 3}, "data-dir": "/d", "String": "s"}`),
	}}
	for _, c := range [][2]string{
		{"{{.metadata.log.file.path}} {{.metadata.log.file.keep}}", "/a<b> 3"},
		{
			"{{.metadata.port}} {{.metadata.rate}} {{.metadata.big}} {{.metadata.on}}",
			"8080 0.5 18446744073709551615 true",
		},
		{"{{.metadata.level}} {{.metadata.log.String}}", "info s"},
		{`{{if and .metadata.on (eq .metadata.port 8080) (gt .metadata.rate 0.1)}}y{{end}}`, "y"},
		{"{{.metadata.log.file}}{{.metadata.peers}}", `{"keep":3,"path":"/a<b>"}["a",{"host":"b"}]`},
		{"{{json .metadata.log.file}}{{quote .metadata.log.file.path}}", `{"keep":3,"path":"/a<b>"}"/a<b>"`},
		{"{{range .metadata.peers}}{{.}};{{end}}", `a;{"host":"b"};`},
		{"{{range $k, $v := .metadata.log.file}}{{$k}}={{$v}};{{end}}", "keep=3;path=/a<b>;"},
		{"{{(index .metadata.peers 1).host}}{{index .metadata.peers 0}}", "ba"},
		{`{{lookup .metadata.log "data-dir"}}{{lookup .metadata.log "none" "else"}}`, "/delse"},
		{`{{with .metadata.log}}{{.file.keep}}{{end}}{{$x := .metadata.log}}{{$x.file.path}}`, "3/a<b>"},
		{`{{lookup .labels "rack"}}{{.labels.rack}}`, "aa"},
	} {
		text, want := c[0], c[1]
		tmpl, err := render.Parse("test", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := tmpl.Render(d); err != nil || string(got) != want {
			t.Errorf("%s renders %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"{{.metadata.log.none}}", "{{.metadata.log.file.path.x}}", "{{.metadata.level.x}}",
		"{{index .metadata.peers 2}}",
		"{{index .metadata.peers -1}}", `{{index .metadata.peers "a"}}`, `{{lookup .metadata.port "a"}}`,
		`{{lookup .metadata.log "none"}}`, "{{quote .metadata.log}}", `{{range .metadata.none}}x{{end}}`,
	} {
		tmpl, err := render.Parse("test", text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := tmpl.Render(d); err == nil {
			t.Errorf("%s renders %q", text, got)
		}
	}
}
