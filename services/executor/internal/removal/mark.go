package removal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"google.golang.org/protobuf/encoding/protojson"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Format numbers the mark. One from before there were numbers is read.
var Format = format.Spec{Kind: "mark of an uninstall", Now: 1, Floor: 1}

// Mark reports that the decision to uninstall was made, and holds what it was made from, as
// the identity goes. It is written here, before anything is removed, and read at each start.
type Mark struct {
	format.Stamp
	PublicKey    string          `json:"public_key"` // the executor's own
	Ownership    string          `json:"ownership"`
	TombstoneKey string          `json:"tombstone_key"`
	Tombstone    json.RawMessage `json:"tombstone"` // garrison.server.v1.Tombstone
}

// NewMark makes the mark of a server. An error says that the facts do not allow it.
func NewMark(who identity.Identity, t *serverv1.Tombstone) (Mark, error) {
	data, err := protojson.Marshal(t)
	if err != nil {
		return Mark{}, err
	}
	m := Mark{
		Stamp:        Format.Stamp(),
		PublicKey:    who.PublicKey,
		Ownership:    who.Ownership,
		TombstoneKey: who.TombstoneKey,
		Tombstone:    data,
	}
	dead, err := m.check()
	if err != nil {
		return m, err
	}
	return m, m.sameAs(who, dead)
}

// check returns the tombstone of the mark. An error says that the mark does not hold.
func (m Mark) check() (*serverv1.Tombstone, error) {
	t := &serverv1.Tombstone{}
	if err := protojson.Unmarshal(m.Tombstone, t); err != nil {
		return nil, fault.New(fault.Invalid, "read the tombstone: %w", err)
	}
	if m.Ownership != identity.Manual {
		return nil, fault.New(fault.Denied, "server %s is %q: it does not remove itself", t.GetServerId(), m.Ownership)
	}
	return t, trust.CheckTombstone(t, m.TombstoneKey)
}

// sameAs says in what an identity is not the one that the mark was made from.
func (m Mark) sameAs(who identity.Identity, dead *serverv1.Tombstone) error {
	for _, is := range []struct{ what, marked, here string }{
		{"server", dead.GetServerId(), who.ServerID},
		{"site", dead.GetCell(), who.Cell},
		{"ownership", m.Ownership, who.Ownership},
		{"tombstone key", m.TombstoneKey, who.TombstoneKey},
		{"key", m.PublicKey, who.PublicKey},
	} {
		if is.marked != is.here {
			return fault.New(fault.Conflict, "it is about %s %q, and this is %q", is.what, is.marked, is.here)
		}
	}
	return nil
}

// about reports whether the mark is about what is under root, as far as that is still there:
// the identity goes before the key, and both go before the mark.
func (m Mark) about(root layout.Root, dead *serverv1.Tombstone) error {
	who, err := identity.Read(root)
	if err == nil {
		err = m.sameAs(who, dead)
	} else if fault.Is(err, fault.NotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	key, err := identity.PublicKey(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && key != m.PublicKey {
		err = fault.New(fault.Conflict, "it is about key %s, and this is %s", m.PublicKey, key)
	}
	return err
}

// Marked returns the server whose removal was begun under root, or "". An invalid mark is an error.
func Marked(root layout.Root) (server string, err error) {
	data, err := strictdir.ReadFile(root.Tombstone())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var m Mark
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil {
		err = Format.Check(root.Tombstone(), m.Stamp)
	}
	var dead *serverv1.Tombstone
	if err == nil {
		dead, err = m.check()
	}
	if err == nil {
		err = m.about(root, dead)
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", root.Tombstone(), err)
	}
	return dead.GetServerId(), nil
}

// write puts the mark on the disk.
func (m Mark) write(root layout.Root) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return layout.Write(root.Tombstone(), append(data, '\n'), 0o600)
}
