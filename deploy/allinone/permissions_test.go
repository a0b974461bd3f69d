package allinone

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// A local user who can write the keys, or replace their directory, would own the fleet.
func TestADataDirectoryThatOthersCanChangeIsRefused(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"", "trust", "views", "trust/keys", "trust/keys/operator.seed", "operator.json"} {
		data := filepath.Join(t.TempDir(), "data")
		if err := WriteKeys(Keys{Data: data, URL: "nats://bus:4222"}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(data, part)
		if part == "views" {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, info.Mode()|0o020); err != nil {
			t.Fatal(err)
		}
		for what, try := range map[string]func() error{
			"run": func() error {
				_, err := Start(t.Context(), Config{Data: data, Log: zerolog.Nop()})
				return err
			},
			"keys": func() error { return WriteKeys(Keys{Data: data, URL: "nats://bus:4222"}) },
			"provision": func() error {
				return Provision(t.Context(), Provisioning{Data: data, URL: "nats://127.0.0.1:1"})
			},
		} {
			if err := try(); fault.RefusalOf(err).GetCode() != code.UnsafePermissions {
				t.Errorf("%s with %q writable by a group: %v, want %s", what, part, err, code.UnsafePermissions)
			}
		}
	}
}
