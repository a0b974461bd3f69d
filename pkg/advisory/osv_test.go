package advisory_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/advisory"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/sbom"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
)

const openssl = `{"id": "DSA-1", "aliases": ["CVE-2023-5678"], "database_specific": {"severity": "HIGH"}, "affected": [
	{"package": {"ecosystem": "Debian:12", "name": "openssl"}, "ranges": [{"type": "ECOSYSTEM", "events": [
		{"fixed": "3.0.13-1~deb12u1"}, {"introduced": "0"}, {"introduced": "3.1"}, {"last_affected": "3.1.4"}]}]}]}`

func read(text string) (*advisory.Export, error) {
	return advisory.Read(strings.NewReader(text), int64(len(text)))
}

func zipped(t *testing.T, files ...string) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i, text := range files {
		w, err := z.Create(fmt.Sprintf("%d.json", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestADocumentAListAndAnArchiveHaveTheSameRecord(t *testing.T) {
	for name, text := range map[string]string{
		"document": openssl, "list": "\n[" + openssl + "]", "archive": zipped(t, openssl), "mark": "\uFEFF" + openssl,
	} {
		e, err := read(text)
		if err != nil || len(e.Advisories) != 1 || len(e.Faults) != 0 {
			t.Errorf("%s: %+v, %v", name, e, err)
			continue
		}
		a := e.Advisories[0]
		r := a.Affected[0].Ranges
		if a.Severity != "HIGH" || a.Affected[0].Release != "12" || len(r) != 2 ||
			r[0].Fixed != "3.0.13-1~deb12u1" || r[1].LastAffected != "3.1.4" {
			t.Errorf("%s: %v", name, a)
		}
	}
}

func TestARecordThatCannotBeReadIsNamedAndTheOthersAreRead(t *testing.T) {
	of := func(affected string) string { return `{"id": "X", "affected": ` + affected + `}` }
	for record, want := range map[string]string{
		`{}`:                                     "id is missing",
		`{"id": "X"}`:                            "X: affected names no version of a package",
		`{"id": 7}`:                              "id is a number, want a string",
		of(`"all"`):                              "affected is a string, want a slice",
		of(`[{"package": {"name": "a"}}]`):       "X: affected[0].package.ecosystem is missing",
		of(`[{"package": {"ecosystem": "Go"}}]`): "X: affected[0].package.name is missing",
		`{"id": "` + strings.Repeat("x", 129) + `"}`: "has 129 bytes, want at most 128",
		of(`[{"package": {"ecosystem": "Go", "name":"a"}, "ranges": [{"events":[{"fixed":"1"}]}]}]`): "introduce no " +
			"version",
		`{"id": "X", "details": "` + strings.Repeat("x", advisory.MaxRecord) + `"}`: "want at most 8388608",
	} {
		for _, text := range []string{"[" + record + "," + openssl + "]", zipped(t, record, openssl)} {
			e, err := read(text)
			if err != nil || len(e.Advisories) != 1 || len(e.Faults) != 1 || !strings.Contains(e.Faults[0], want) {
				t.Errorf("%.80s: %.300v, %v; want %s", record, e, err, want)
			}
		}
	}
}

func TestAFileThatIsNotOSVIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "neither JSON nor a zip archive",
		"hello":                      "neither JSON nor a zip archive",
		"PK\x03\x04 and no more":     "not a zip archive",
		"[" + openssl:                "not JSON",
		`{"bomFormat": "CycloneDX"}`: "id is missing",
		"[]":                         "has no record",
		`["a"]`:                      "no record can be read",
	} {
		_, err := read(text)
		if fault.RefusalOf(err).GetCode() != code.BadAdvisory || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// A record that is far too long is not read into memory, wherever it stands.
func TestALongRecordEndsTheReading(t *testing.T) {
	long := `{"id": "X", "details": "` + strings.Repeat("x", 9*advisory.MaxRecord) + `"}`
	for _, text := range []string{long, "[" + openssl + "," + long + "]"} {
		if e, err := read(text); err == nil || !strings.Contains(err.Error(), "a record has more than 16 MiB") {
			t.Errorf("%.60s: %.200v, %v", text, e, err)
		}
	}
	e, err := read(zipped(t, long, openssl))
	if err != nil || len(e.Advisories) != 1 || len(e.Faults) != 1 {
		t.Errorf("in an archive: %d advisories, %v, %v", len(e.Advisories), e.Faults, err)
	}
}

func TestWhatWasWithdrawnIsNotKept(t *testing.T) {
	e, err := read(`[{"id": "X", "withdrawn": "2024-01-01T00:00:00Z"}]`)
	if err != nil || len(e.Advisories) != 0 || e.Withdrawn != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestAComponentIsAffected(t *testing.T) {
	e, err := read("[" + openssl + `, {"id": "P", "affected": [{"package": {"ecosystem": "PyPI", "name": "Foo.Bar"},
		"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1.0"}, {"fixed": "1.4"}]}]}]},
		{"id": "M", "affected": [{"package": {"ecosystem": "Maven", "name": "g:a"}, "versions": ["1.2"],
		"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "1.0"}, {"fixed": "1.4"}]}]}]}]`)
	if err != nil {
		t.Fatal(err)
	}
	deb := func(release, name, source, version string) sbom.Component {
		return sbom.Component{Ecosystem: "Debian", Release: release, Name: name, Source: source, Version: version}
	}
	for _, c := range []struct {
		record int
		is     sbom.Component
		want   advisory.Verdict
	}{
		{0, deb("12", "openssl", "", "3.0.11-1"), advisory.Yes},
		{0, deb("12", "libssl3", "openssl", "3.0.11-1"), advisory.Yes},
		{0, deb("12", "openssl", "", "3.0.13-1~deb12u1"), advisory.No},
		{0, deb("12", "openssl", "", "3.1.4"), advisory.Yes},
		{0, deb("12", "openssl", "", "3.1.5"), advisory.No},
		{0, deb("11", "openssl", "", "1.1"), advisory.No},
		{0, deb("", "openssl", "", "1.1"), advisory.Maybe},
		{0, deb("12", "openssl", "", ""), advisory.Maybe},
		{0, sbom.Component{Name: "openssl", Version: "1.1"}, advisory.Maybe},
		{0, sbom.Component{Ecosystem: "deb", Name: "openssl", Version: "1.1"}, advisory.Maybe},
		{0, sbom.Component{Ecosystem: "npm", Name: "openssl", Version: "1.1"}, advisory.No},
		{1, sbom.Component{Ecosystem: "PyPI", Name: "foo_bar", Version: "1.3"}, advisory.Yes},
		{1, sbom.Component{Ecosystem: "PyPI", Name: "foo_bar", Version: "0.9"}, advisory.No},
		{2, sbom.Component{Ecosystem: "Maven", Name: "g:a", Version: "1.2"}, advisory.Yes},
		{2, sbom.Component{Ecosystem: "Maven", Name: "g:a", Version: "1.3"}, advisory.Yes},
		{2, sbom.Component{Ecosystem: "Maven", Name: "g:a", Version: "1.3-jre"}, advisory.Maybe},
		{2, sbom.Component{Ecosystem: "Maven", Name: "g:a", Version: "2.0-jre"}, advisory.Maybe},
		{2, sbom.Component{Ecosystem: "Maven", Name: "g:a", Version: "2.0"}, advisory.No},
	} {
		if have := advisory.Affects(affected(e, c.record), c.is); have.Verdict != c.want {
			t.Errorf("%+v: %v, want %v", c, have.Verdict, c.want)
		}
	}
}

func affected(e *advisory.Export, n int) *catalogv1.Affected { return e.Advisories[n].Affected[0] }

func FuzzRead(f *testing.F) {
	f.Add([]byte(openssl))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := advisory.Read(bytes.NewReader(data), int64(len(data)))
		if err != nil && fault.RefusalOf(err).GetCode() != code.BadAdvisory {
			t.Errorf("%v is no refusal", err)
		}
		if err == nil && len(e.Advisories)+e.Withdrawn == 0 {
			t.Error("nothing was read")
		}
	})
}
