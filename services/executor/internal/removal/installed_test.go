package removal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAServicesFileIsFoundFromItsControlGroup(t *testing.T) {
	etc, lib := t.TempDir(), t.TempDir()
	file := filepath.Join(lib, "garrison-executor.service")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for groups, want := range map[string][]string{
		"0::/system.slice/garrison-executor.service\n":                   {file},
		"1:name=systemd:/system.slice/garrison-executor.service\n0::/\n": {file},
		"0::/system.slice/other.service\n":                               nil,
		"0::/user.slice/user-0.slice/session-1.scope\n":                  nil,
		"": nil,
	} {
		if got := unitFile(groups, etc, lib); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", groups, got, want)
		}
	}
}
