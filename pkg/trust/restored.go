package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/garrison-fleet/garrison/pkg/format"
)

var restoredFormat = format.Spec{Kind: "record of a restore", Now: 1, Floor: 1}

// Restored is the last restore of a backup, as far as it concerns who may connect. The ledger of a backup lacks the
// revocations that came after it.
type Restored struct {
	format.Stamp
	BackupAt   time.Time `json:"backup_at"`
	RestoredAt time.Time `json:"restored_at"`
	Adopted    bool      `json:"adopted"` // Refused is that of the control plane before the restore
	// Refused is the keys that accounts refuse beside those that the ledger says, by the name of the account.
	Refused   map[string][]string `json:"refused,omitempty"`
	Confirmed bool                `json:"confirmed,omitempty"` // a person looked at what may be lost
}

// RestoredFile is where the record of a restore is, beside the authority.
const RestoredFile = "restored.json"

// ReadRestored returns the record of the last restore, or nil when there was none.
func ReadRestored(dir string) (*Restored, error) {
	file := filepath.Join(dir, RestoredFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r Restored
	if err := restoredFormat.ReadJSON(file, data, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

// write writes the record.
func (r *Restored) write(dir string) error {
	r.Stamp = restoredFormat.Stamp()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, RestoredFile), data)
}

// RecordRestore notes in an authority of a backup that it was restored. The keys that the authority in before refuses,
// that of the control plane until then, stay refused; before may be empty. It returns how many these are. The error is
// of the present authority when it is of another Garrison.
func RecordRestore(dir, before string, backupAt, now time.Time) (refused int, err error) {
	r := &Restored{BackupAt: backupAt, RestoredAt: now, Refused: map[string][]string{}}
	was, err := ReadRestored(dir)
	if err != nil {
		return 0, err
	}
	if was != nil { // of a restore before the backup
		r.Refused = was.Refused
	}
	if before != "" {
		keys, err := revoked(dir, before)
		if err != nil {
			return 0, err
		}
		r.Adopted = true
		for account, more := range keys {
			all := slices.Sorted(slices.Values(append(more, r.Refused[account]...)))
			r.Refused[account] = slices.Compact(all)
			refused += len(more)
		}
	}
	return refused, r.write(dir)
}

// revoked returns the keys that an authority refuses, by account, which must be the same as that in dir. What the last
// restore there had it refuse is among them.
func revoked(dir, from string) (map[string][]string, error) {
	own, err := (&Authority{dir: dir}).readPublic()
	if err != nil {
		return nil, err
	}
	other, err := (&Authority{dir: from}).readPublic()
	if err != nil {
		return nil, err
	}
	if other.OperatorJWT == "" {
		return nil, fmt.Errorf("%s holds no authority.json", from)
	}
	keys := map[string][]string{}
	for name, public := range own.Names {
		claims, err := jwt.DecodeAccountClaims(other.Accounts[public]) // checks its signature
		if err != nil {
			return nil, fmt.Errorf("account %s of %s is not that of the backup: %w", name, from, err)
		}
		if list := slices.Sorted(maps.Keys(claims.Revocations)); len(list) > 0 {
			keys[name] = list
		}
	}
	return keys, nil
}

// Restored returns the record of the last restore, or nil when there was none.
func (i *Issuer) Restored() (*Restored, error) { return ReadRestored(i.authority.dir) }

// ConfirmRestored notes that a person looked at what the restore of that time may have lost. It reports whether it was
// the last one.
func (i *Issuer) ConfirmRestored(restoredAt time.Time) (bool, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	r, err := i.Restored()
	if r == nil || err != nil || !r.RestoredAt.Equal(restoredAt) {
		return false, err
	}
	r.Confirmed = true
	return true, r.write(i.authority.dir)
}
