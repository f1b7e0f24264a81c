"""Flexible joints: stiffness, damping, motor inertia and start offset from measured motion, with their uncertainty."""
