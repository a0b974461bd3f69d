package allinone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// WriteKeys makes keys and credentials in data for a bus and services that run in
// processes of their own, the first operator's context, and trust/accounts.conf, which
// a nats-server's configuration includes. What is there already is kept.
func WriteKeys(data, url string) error {
	if url == "" {
		return errors.New("--url is missing: say where the bus will be, such as nats://bus:4222")
	}
	have, err := checkData(data)
	if err != nil {
		return err
	}
	a, err := trust.OpenAuthority(filepath.Join(data, "trust"))
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(data, "trust", "accounts.conf"), []byte(accountsConf(a.Public)), 0o600); err != nil {
		return fmt.Errorf("write accounts.conf: %w", err)
	}
	if err := adoptData(data, have); err != nil {
		return fmt.Errorf("write the format of the data directory: %w", err)
	}
	file := filepath.Join(data, "operator.json")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c, err := a.Person("operator", topology.Admin, url, time.Time{})
	if err != nil {
		return err
	}
	return c.Write(file)
}

// accountsConf writes operator and accounts in nats-server's configuration language.
func accountsConf(p trust.Public) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n", p.OperatorJWT, p.SystemAccount)
	keys := make([]string, 0, len(p.Accounts))
	for k := range p.Accounts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Fprintf(&b, "  %s: %s\n", k, p.Accounts[k])
	}
	b.WriteString("}\n")
	return b.String()
}
