package children

import (
	"fmt"
	"maps"

	"github.com/workpull/operator/api/v1alpha1"
)

// Names of what belongs to a Producer or a WorkerPool. The bounds on the
// owners' names (40 and 50 characters) keep each within 63.

// ProducerName is the name of a Producer's Deployment or StatefulSet, headless
// Service, ServiceAccount, Role and RoleBinding, and PodDisruptionBudget.
func ProducerName(producer string) string { return producer + "-producer" }

// LeaseName is the name of the Lease by which a Producer's pods elect the
// active one.
func LeaseName(producer string) string { return ProducerName(producer) }

// ClaimName is the name of the PersistentVolumeClaim of an embedded queue. It
// follows from the StatefulSet's, so that a Producer that is made again under
// the same name finds it.
func ClaimName(producer string) string { return queueVolume + "-" + ProducerName(producer) + "-0" }

// WorkerAccountName is the name of the ServiceAccount, Role and RoleBinding of
// a pool of members.
func WorkerAccountName(pool string) string { return pool + "-worker" }

// PodName is the name of the pool's pod in a slot.
func PodName(pool string, slot int) string { return fmt.Sprintf("%s-%d", pool, slot) }

// SystemName is the name of the GoAkt actor system, one for each Producer. It
// holds letters, digits and dashes only, as namespace and name do.
func SystemName(namespace, producer string) string {
	return "workpull-" + namespace + "-" + producer
}

// ProducerHost is the DNS name that resolves to the producer's pods.
func ProducerHost(namespace, producer string) string {
	return ProducerName(producer) + "." + namespace + ".svc"
}

// Endpoint is the URL of the intake inside the cluster.
func Endpoint(namespace, producer string, port int32) string {
	host := producer + "." + namespace + ".svc"
	if port == 80 {
		return "http://" + host
	}
	return fmt.Sprintf("http://%s:%d", host, port)
}

// ProducerLabels are the labels of all objects of a Producer.
func ProducerLabels(producer string) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:      v1alpha1.NameWorkpull,
		v1alpha1.LabelInstance:  producer,
		v1alpha1.LabelComponent: v1alpha1.ComponentProducer,
		v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator,
		v1alpha1.LabelProducer:  producer,
	}
}

// ProducerSelector selects the pods of a Producer. It is part of an immutable
// field, so it never changes.
func ProducerSelector(producer string) map[string]string {
	return map[string]string{
		v1alpha1.LabelComponent: v1alpha1.ComponentProducer,
		v1alpha1.LabelProducer:  producer,
	}
}

// PoolLabels are the labels of all objects of a WorkerPool.
func PoolLabels(pool, producer string) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:      v1alpha1.NameWorkpull,
		v1alpha1.LabelInstance:  producer,
		v1alpha1.LabelComponent: v1alpha1.ComponentWorker,
		v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator,
		v1alpha1.LabelProducer:  producer,
		v1alpha1.LabelPool:      pool,
	}
}

// PoolSelector selects the pods of a WorkerPool.
func PoolSelector(pool string) map[string]string {
	return map[string]string{
		v1alpha1.LabelComponent: v1alpha1.ComponentWorker,
		v1alpha1.LabelPool:      pool,
	}
}

// overlay returns base with the entries of top, which win.
func overlay(base, top map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(top))
	maps.Copy(out, base)
	maps.Copy(out, top)
	return out
}
