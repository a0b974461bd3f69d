package output

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/yaml"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// steering returns every character that no format may print: what a terminal obeys, and what turns text around.
func steering() (all []rune) {
	for r := rune(0); r < 0xa0; r++ {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f {
			all = append(all, r)
		}
	}
	return append(all, 0x061c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067,
		0x2068, 0x2069)
}

// A server says all of them, and no format lets one through.
func TestNoFormatPrintsWhatSteersTheTerminal(t *testing.T) {
	for _, r := range steering() {
		name := "a" + string(r) + "[31mb"
		one := &serverv1.Server{Name: name, Id: "i", Since: timestamppb.New(noon)}
		for _, format := range Formats {
			for what, show := range map[string]func(*Printer) error{
				"a list": func(p *Printer) error {
					return Show(p, testTable, &registryv1.ListServersResponse{Servers: []row{one}}, []row{one})
				},
				"one":  func(p *Printer) error { return ShowOne(p, p.View(), testTable, one, [2]string{"MORE", name}) },
				"bare": func(p *Printer) error { return ShowBare(p, one, name) },
				"a value that is no message": func(p *Printer) error {
					return ShowOne(p, p.View(), listing.Listing[string]{
						Name:    func(s string) string { return s },
						Columns: []listing.Column[string]{listing.Col("S", strings.Clone)},
					}, name)
				},
			} {
				var out strings.Builder
				if err := show(printer(&out, format)); err != nil {
					t.Fatalf("%U, %s in %s: %v", r, what, format, err)
				}
				if strings.ContainsRune(out.String(), r) || !strings.Contains(out.String(), "[31mb") {
					t.Errorf("%U, %s in %s is printed: %q", r, what, format, out.String())
				}
			}
		}
		var live strings.Builder
		l := &Live{W: &live}
		l.Say("%s", name)
		if strings.ContainsRune(live.String(), r) {
			t.Errorf("%U in a line: %q", r, live.String())
		}
	}
}

// For a program nothing is lost: JSON and YAML hold the same text.
func TestWhatIsEscapedIsReadBackAsItWas(t *testing.T) {
	name := "ordinary: é 日本 👍 " + string(steering()[1:]) + fmt.Sprintf("%c", rune(0xa0))
	want := &serverv1.Server{Name: name}
	for _, format := range []string{FormatJSON, FormatJSONL, FormatYAML} {
		var out strings.Builder
		if err := ShowBare(printer(&out, format), want, ""); err != nil {
			t.Fatal(err)
		}
		text := []byte(out.String())
		if format == FormatYAML {
			var err error
			if text, err = yaml.YAMLToJSON(text); err != nil {
				t.Fatal(err)
			}
		}
		got := &serverv1.Server{}
		if err := protojson.Unmarshal(text, got); err != nil || got.Name != name || !json.Valid(text) {
			t.Errorf("%s: %q, %v; want %q", format, got.Name, err, name)
		}
	}
}

func TestABrokenByteIsNotPrinted(t *testing.T) {
	if got := visible.Text("a\x9b31m"); got != "a\ufffd31m" {
		t.Errorf("%q", got)
	}
}
