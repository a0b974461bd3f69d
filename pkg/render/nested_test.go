package render_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/render"
)

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
