package allinone

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

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
