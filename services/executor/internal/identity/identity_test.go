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

func TestAKeyIsMadeOnceAndAnIdentityIsReadAsItWasWritten(t *testing.T) {
	root := layout.Root(t.TempDir())
	first, err := identity.OpenKey(root)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := identity.OpenKey(root); err != nil || again != first {
		t.Errorf("another key: %v", err)
	}
	if _, err := identity.Read(root); !fault.Is(err, fault.NotFound) {
		t.Errorf("before: %v", err)
	}
	want := identity.Identity{
		ServerID:  "0197b5a0-0000-7000-8000-000000000001",
		Cell:      "main",
		URL:       "nats://x",
		PublicKey: first.Public,
		JWT:       "jwt",
	}
	if err := want.Write(root); err != nil {
		t.Fatal(err)
	}
	if got, err := identity.Read(root); err != nil || got != want {
		t.Errorf("got %v, %v", got, err)
	}
	jwt, seed, err := identity.Credentials(root)()
	if err != nil || jwt != "jwt" || string(seed) != first.Seed {
		t.Errorf("credentials %q, %v", jwt, err)
	}
	if err := identity.Remove(root); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Read(root); !fault.Is(err, fault.NotFound) {
		t.Errorf("after: %v", err)
	}
}

func TestAnIdentityThatWouldLeaveItsSubjectsIsRefused(t *testing.T) {
	for _, i := range []identity.Identity{
		{ServerID: ">", Cell: "main"}, {ServerID: "0197b5a0-0000-7000-8000-000000000001", Cell: "a.b"},
	} {
		if err := i.Write(layout.Root(t.TempDir())); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v: %v", i, err)
		}
	}
}

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
