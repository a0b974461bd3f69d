package executor

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/fate"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Where no executor runs, the inventory is compared with the disk and the processes in the
// same way as an engine does it, without changing anything.

// lostOf returns why a journal that can be read is not the whole truth, or is empty.
func lostOf(tx *journal.Tx, root layout.Root) (string, error) {
	older, err := inventory.Look(root, tx.Note(noteServer)).Older(tx)
	if older != "" || err != nil {
		return older, err
	}
	return tx.Note(journal.NoteLost), nil
}

// compare reports what an inventory is worth: lost says why it may have forgotten agents.
// Then a link counts that it does not know; a process does in any case.
func (x *Executor) compare(k known, lost string) (fate.Inventory, string, error) {
	words, err := x.strangers(k)
	if lost != "" {
		unknown, e := x.unknownLinks(k)
		words, err = append(unknown, words...), errors.Join(err, e)
	}
	switch {
	case err != nil:
		return fate.InventoryUntrusted, "", err
	case len(words) == 0:
		return fate.InventoryTrusted, "", nil
	case lost == "":
		return fate.InventoryUntrusted, "not known: " + strings.Join(words, ", "), nil
	}
	doubt := fmt.Sprintf("%s; not known: %s", lost, strings.Join(words, ", "))
	if len(k.agents) == 0 {
		return fate.InventoryNone, doubt, nil
	}
	return fate.InventoryUntrusted, doubt, nil
}

// unknownLinks names the links of agents that are not known.
func (x *Executor) unknownLinks(k known) (words []string, err error) {
	entries, err := os.ReadDir(x.root.Agents())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		temporary := strings.HasPrefix(e.Name(), layout.TemporaryPrefix)
		if _, e2 := os.Readlink(x.root.Current(e.Name())); e2 == nil && !temporary && !k.agents[e.Name()] {
			words = append(words, x.root.Relative(x.root.Current(e.Name())))
		}
	}
	return words[:min(len(words), maxNamed)], err
}
