package allinone

import (
	"errors"
	"io/fs"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// firstOperator is the name of the admin whose context stands in the data directory.
const firstOperator = "operator"

// operatorContext returns the first operator's context that is kept in a file. It makes a new one, and returns why,
// when the file is missing or damaged, or its credentials have expired: the admin of this machine is never locked out.
// Other credentials of that name stay valid until they expire or are revoked.
func operatorContext(a *trust.Authority, file string, at time.Time) (c trust.Context, why string, err error) {
	c, err = trust.ReadContext(file)
	switch {
	case errors.Is(err, trust.ErrDamaged):
		why = err.Error()
	case errors.Is(err, fs.ErrNotExist):
		why = "there was none"
	case err != nil:
		return c, "", err
	default:
		if _, until := trust.Times(c.JWT); until.IsZero() || !at.Before(until) {
			why = "its credentials have expired"
		}
	}
	if why == "" {
		return c, "", nil
	}
	c, err = a.Person(firstOperator, topology.Admin, "", at.Add(trust.PersonValidFor))
	return c, why, err
}
