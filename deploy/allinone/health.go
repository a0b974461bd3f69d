package allinone

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// HealthOf reports, as a nil error, that the garrisond of a data directory serves clients: it opens its port once every
// service answers, and ends when one of them fails.
func HealthOf(ctx context.Context, data string) error {
	kept, err := os.ReadFile(filepath.Join(data, "address"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no garrisond has run with the data directory %s", data)
	}
	if err != nil {
		return err
	}
	address := strings.TrimSpace(string(kept))
	if err := Health(ctx, "tls://"+address); err != nil {
		return fmt.Errorf("the garrisond of %s does not serve clients at %s; it is not running, or its services do "+
			"not answer yet: %w", data, address, err)
	}
	return nil
}

// Health connects to the bus at an address and waits for its greeting. It needs no credentials.
func Health(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return fmt.Errorf("bus address %q: want nats://host:port", address)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return err
	}
	greeting, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the bus's greeting: %w", err)
	}
	if !strings.HasPrefix(greeting, "INFO ") {
		return errors.New("the listener there is not a NATS server")
	}
	return nil
}
