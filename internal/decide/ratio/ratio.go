// Package ratio decides how many replicas a follower has beside its leader: leader x followRatio, multiplied exactly and
// rounded up.
package ratio

import (
	"fmt"
	"math"
	"math/big"
	"regexp"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Max is the largest ratio.
const Max = 1000

var decimal = regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,3})?$`)

// Parse reads a followRatio: an integer from 1, or a decimal above 0 with at most three decimals, at most Max.
func Parse(r intstr.IntOrString) (*big.Rat, error) {
	wrong := func() error {
		return fmt.Errorf("followRatio is %q: must be an integer from 1 to %d, or a quoted decimal above 0 and at most %d with at most three decimals, for example \"0.5\"", r.String(), Max, Max)
	}
	if r.Type == intstr.String && !decimal.MatchString(r.StrVal) {
		return nil, wrong()
	}
	v, ok := new(big.Rat).SetString(r.String())
	if !ok || v.Sign() <= 0 || v.Cmp(big.NewRat(Max, 1)) > 0 {
		return nil, wrong()
	}
	return v, nil
}

// Follow returns ceil(leader x ratio). A product beyond 2147483647 is an error: no replica count can hold it. A leader
// of 0 gives 0.
func Follow(leader int32, r *big.Rat) (int32, error) {
	product := new(big.Rat).Mul(new(big.Rat).SetInt64(int64(leader)), r)
	up := new(big.Int).Add(product.Num(), new(big.Int).Sub(product.Denom(), big.NewInt(1)))
	up.Div(up, product.Denom())
	if !up.IsInt64() || up.Int64() > math.MaxInt32 {
		return 0, fmt.Errorf("%d x %s is more than a replica count can hold: must be at most %d", leader, r.RatString(), math.MaxInt32)
	}
	return int32(up.Int64()), nil
}
