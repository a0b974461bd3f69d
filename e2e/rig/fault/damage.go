package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
)

// Damage is a way in which a file is damaged.
type Damage string

// The ways.
const (
	Deleted   Damage = "deleted"
	Emptied   Damage = "emptied"
	Truncated Damage = "truncated"
	Flipped   Damage = "flipped" // twenty bytes are changed
	Garbage   Damage = "replaced by garbage"
	SetBack   Damage = "set back" // to the copy that was made when the round began
)

// damages lists every way; the last needs a copy.
var damages = []Damage{Deleted, Emptied, Truncated, Flipped, Garbage, SetBack}

// DamageFile damages a file in a way that pick chooses. Without an old copy it is not set back.
func DamageFile(path, old string, pick uint64) (Damage, error) {
	ways := damages
	if _, err := os.Stat(old); old == "" || err != nil {
		ways = damages[:len(damages)-1]
	}
	way := ways[pick%uint64(len(ways))]
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "missing already", nil
	}
	if err != nil {
		return way, err
	}
	random := rand.New(rand.NewPCG(pick, 3))
	switch way {
	case Deleted:
		return way, os.Remove(path)
	case Emptied:
		data = nil
	case Truncated:
		data = data[:len(data)/2]
	case Flipped:
		for range min(20, len(data)) {
			data[random.IntN(len(data))] ^= 0xff
		}
	case Garbage:
		for i := range data {
			data[i] = byte(random.Uint32())
		}
	case SetBack:
		if data, err = os.ReadFile(old); err != nil {
			return way, err
		}
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return way, fmt.Errorf("damage %s: %w", path, err)
	}
	return way, nil
}
