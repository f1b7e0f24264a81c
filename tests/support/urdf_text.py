"""A small arm as URDF."""

INERTIAL = (
    '<inertial><origin xyz="0.1 0 0" rpy="0 0 0"/><mass value="2"/>'
    '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
)
ARM = f"""<?xml version="1.0"?>
<robot name="arm">
  <material name="grey"/>
  <link name="base">{INERTIAL}<visual><geometry><mesh filename="package://a/b.stl"/></geometry></visual></link>
  <link name="link1">{INERTIAL}<collision><geometry><box size="1 1 1"/></geometry></collision></link>
  <link name="link2">{INERTIAL}</link>
  <link name="hand"/>
  <joint name="j1" type="revolute">
    <parent link="base"/><child link="link1"/><origin xyz="1 2 3" rpy="0.1 0.2 0.3"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="2" effort="5" velocity="3"/><dynamics damping="0.7" friction="0.2"/>
  </joint>
  <joint name="j2" type="prismatic"><parent link="link1"/><child link="link2"/><origin xyz="0 0 1"/></joint>
  <joint name="grip" type="fixed"><parent link="link2"/><child link="hand"/><origin xyz="0 0 0.5" rpy="0 0 1"/></joint>
  <transmission name="t"/><gazebo/>
</robot>"""
