package signal

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pd-orchestrator/pd-orchestrator/api/elasticscaler/v1alpha1"
	"github.com/pd-orchestrator/pd-orchestrator/internal/decide/signals"
)

const (
	// allowedFor and deniedFor are how long an answer of the API server is remembered.
	allowedFor = 10 * time.Second
	deniedFor  = time.Second
	// reviewsPerSecond and reviewsAtOnce bound how many reviews are asked for: a stranger can ask with ever new tokens.
	reviewsPerSecond = 50
	reviewsAtOnce    = 100
)

// reviewer finds out who pushes a signal, and whether they may.
type reviewer struct {
	reviews client.Writer
	limit   flowcontrol.PassiveRateLimiter
	// users are *authenticationv1.UserInfo by the hash of a token, nil for one that is not valid. rights are bool by right.
	users, rights *cache.LRUExpireCache
}

// right is that of the owner of a token to signal an ElasticScaler.
type right struct {
	token [sha256.Size]byte
	to    types.NamespacedName
}

func newReviewer(reviews client.Writer, c clock.PassiveClock) *reviewer {
	return &reviewer{
		reviews: reviews,
		limit:   flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(reviewsPerSecond, reviewsAtOnce, c),
		users:   cache.NewLRUExpireCacheWithClock(remembered, c),
		rights:  cache.NewLRUExpireCacheWithClock(remembered, c),
	}
}

// check returns the name of who has the token, and Unauthorized, Forbidden, Limited, or "" where the signal may be given. An
// error says that this could not be found out.
func (r *reviewer) check(ctx context.Context, token string, key types.NamespacedName) (user string, result signals.Result, err error) {
	hash := sha256.Sum256([]byte(token))
	found, ok := r.users.Get(hash)
	info, _ := found.(*authenticationv1.UserInfo)
	if !ok {
		if !r.limit.TryAccept() {
			return "", signals.Limited, nil
		}
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
		if err := r.reviews.Create(ctx, review); err != nil {
			return "", "", fmt.Errorf("asking for a TokenReview: %w", err)
		}
		if review.Status.Authenticated {
			info = &review.Status.User
		}
		r.users.Add(hash, info, lifetime(info != nil))
	}
	if info == nil {
		return "", signals.Unauthorized, nil
	}
	found, ok = r.rights.Get(right{hash, key})
	allowed, _ := found.(bool)
	if !ok {
		if !r.limit.TryAccept() {
			return "", signals.Limited, nil
		}
		extra := map[string]authorizationv1.ExtraValue{}
		for k, v := range info.Extra {
			extra[k] = authorizationv1.ExtraValue(v)
		}
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: info.Username, Groups: info.Groups, UID: info.UID, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: key.Namespace, Name: key.Name, Verb: "update",
				Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "elasticscalers", Subresource: "signal",
			},
		}}
		if err := r.reviews.Create(ctx, review); err != nil {
			return "", "", fmt.Errorf("asking for a SubjectAccessReview: %w", err)
		}
		allowed = review.Status.Allowed
		r.rights.Add(right{hash, key}, allowed, lifetime(allowed))
	}
	if !allowed {
		return info.Username, signals.Forbidden, nil
	}
	return info.Username, "", nil
}

func lifetime(allowed bool) time.Duration {
	if allowed {
		return allowedFor
	}
	return deniedFor
}
