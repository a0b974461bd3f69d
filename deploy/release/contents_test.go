package release_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"path"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// checkBill checks the bill of materials of the tiny command line.
func checkBill(t *testing.T, text string) {
	var bom cdx.BOM
	if err := json.Unmarshal([]byte(text), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.SerialNumber != "" || bom.Metadata == nil || bom.Components == nil {
		t.Fatalf("serial number %q", bom.SerialNumber)
	}
	found := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		found[c.Name] = c
	}
	own, other := found["github.com/garrison-fleet/garrison/pkg"], found["github.com/Masterminds/semver/v3"]
	if own.Version != "1.2.3-rc.1" || other.Version != "v3.5.0" || other.Hashes == nil ||
		found["std"].Version != strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("it lists %v", found)
	}
	for _, absent := range []string{"dirty", "(devel)", "v0.0.0"} {
		if strings.Contains(text, absent) {
			t.Errorf("it holds %s", absent)
		}
	}
}

// checkArchive checks what the archives, which hold the same files as the packages, install.
func checkArchive(t *testing.T, release map[string]string) {
	for _, name := range []string{"garrisond", "garrison-executor", "garrison"} {
		installed := unpack(t, release[name+"-1.2.3-rc.1-linux-"+runtime.GOARCH+".tar.gz"])
		if keys := strings.Fields(installed["usr/share/garrison/release-keys/"+name]); len(keys) != 2 {
			t.Errorf("%s brings the keys %v", name, keys)
		}
		for file, text := range installed {
			if strings.HasSuffix(file, ".service") && (strings.Contains(text, "/usr/local") ||
				!strings.HasPrefix(text, "[Unit]") || !startsWhatIsThere(installed, text)) {
				t.Errorf("%s has %s:\n%s", name, file, text)
			}
		}
	}
}

// startsWhatIsThere reports whether the package of a unit has the program that the unit starts.
func startsWhatIsThere(installed map[string]string, unit string) bool {
	for line := range strings.Lines(unit) {
		if program, ok := strings.CutPrefix(line, "ExecStart=/"); ok {
			program = strings.Replace(strings.Fields(program)[0], "%i", "registry", 1)
			return installed[program] != ""
		}
	}
	return false
}

func unpack(t *testing.T, archive string) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(h.Name)
		want := map[bool]int64{true: 0o755, false: 0o644}[dir == "usr/bin" || dir == "usr/lib/garrison"]
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "root" || h.Mode != want {
			t.Errorf("%s belongs to %s with the mode %o", h.Name, h.Uname, h.Mode)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found[h.Name] = string(data)
	}
}
