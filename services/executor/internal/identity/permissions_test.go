package identity_test

import (
	"errors"
	"os"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func TestAFileThatOthersCanChangeIsNotBelieved(t *testing.T) {
	root := layout.Root(t.TempDir())
	if _, err := identity.OpenKey(root); err != nil {
		t.Fatal(err)
	}
	is := identity.Identity{ServerID: ident.New(), Cell: "main", URL: "nats://x", JWT: "j"}
	if err := errors.Join(is.Write(root), os.WriteFile(root.ImageKeys(), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, read := range map[string]func() error{
		root.Identity():  func() error { _, err := identity.Read(root); return err },
		root.Key():       func() error { return identity.CheckKey(root) },
		root.ImageKeys(): func() error { _, err := identity.ImageKeys(root); return err },
	} {
		if err := read(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := os.Chmod(path, 0o620); err != nil {
			t.Fatal(err)
		}
		err := read()
		if fault.RefusalOf(err).GetCode() != code.UnsafePermissions {
			t.Errorf("%s with mode 0620: %v, want %s", path, err, code.UnsafePermissions)
		}
		if path != root.ImageKeys() && !errors.Is(err, identity.ErrDamaged) {
			t.Errorf("%s: %v; the agents must be kept as with a damaged identity", path, err)
		}
	}
}
